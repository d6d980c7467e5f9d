//! A disk in memory.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, RwLock};

use super::{Disk, DiskFile};

type Content = Arc<RwLock<Vec<u8>>>;

/// A directory of files in memory.
#[derive(Default)]
pub struct MemoryDisk {
    files: Mutex<BTreeMap<String, Content>>,
}

struct MemoryFile {
    content: Content,
}

impl Disk for MemoryDisk {
    fn open(&self, name: &str, create: bool) -> io::Result<Box<dyn DiskFile>> {
        let mut files = self.files.lock().unwrap();
        match (files.get(name), create) {
            (Some(_), true) => Err(io::ErrorKind::AlreadyExists.into()),
            (Some(content), false) => Ok(Box::new(MemoryFile { content: Arc::clone(content) })),
            (None, false) => Err(io::ErrorKind::NotFound.into()),
            (None, true) => {
                let content = Content::default();
                files.insert(name.to_owned(), Arc::clone(&content));
                Ok(Box::new(MemoryFile { content }))
            }
        }
    }

    fn exists(&self, name: &str) -> io::Result<bool> {
        Ok(self.files.lock().unwrap().contains_key(name))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.files.lock().unwrap().remove(name).map(drop).ok_or(io::ErrorKind::NotFound.into())
    }

    fn sync_directory(&self) -> io::Result<()> {
        Ok(())
    }
}

impl DiskFile for MemoryFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let content = self.content.read().unwrap();
        let offset = offset as usize;
        let from = content.get(offset..offset + buf.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        buf.copy_from_slice(from);
        Ok(())
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        let mut content = self.content.write().unwrap();
        let offset = offset as usize;
        if content.len() < offset + buf.len() {
            content.resize(offset + buf.len(), 0);
        }
        content[offset..offset + buf.len()].copy_from_slice(buf);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn allocate(&self, bytes: u64) -> io::Result<()> {
        let mut content = self.content.write().unwrap();
        let bytes = bytes as usize;
        if content.len() < bytes {
            content.resize(bytes, 0);
        }
        Ok(())
    }

    fn bytes(&self) -> io::Result<u64> {
        Ok(self.content.read().unwrap().len() as u64)
    }
}
