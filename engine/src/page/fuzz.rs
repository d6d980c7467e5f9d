//! Arbitrary pages and records.

use super::edit::NodeMut;
use super::node::{Fences, Node};
use super::op::{BadRecord, Op};
use super::overflow::{self, OverflowHeader};
use super::pending::{self, PendingChain};
use super::{
    AT_KIND, AT_PAGE_NO, KIND_BITMAP, KIND_NODE, KIND_OVERFLOW, KIND_PENDING, PAGE_BYTES_MIN, PageNo, bitmap,
    read_u64, seal, verify, verify_content,
};

/// Applies records to one page, one after the other, as recovery does. Records with page bytes may produce anything;
/// others need a sound page and keep it sound.
pub fn page(data: &[u8]) {
    let mut page = vec![0; PAGE_BYTES_MIN];
    let (mut rest, mut is_sound) = (data, false);
    while let Ok((_, op)) = Op::decode(&mut rest, PAGE_BYTES_MIN) {
        let brings_bytes = matches!(op, Op::Image { .. } | Op::Write { .. });
        if !brings_bytes && !is_sound {
            continue;
        }
        let before = page.clone();
        match op.apply(&mut page) {
            Err(BadRecord) => assert!(page == before, "{op:?} was refused, and changed the page"),
            Ok(()) => {
                let verified = verify_content(&page);
                assert!(brings_bytes || verified.is_ok(), "{op:?} makes of a sound page: {verified:?}");
                is_sound = verified.is_ok();
            }
        }
        if is_sound {
            read(&page);
        }
    }
    let no = PageNo(read_u64(&page, AT_PAGE_NO));
    seal(&mut page);
    assert_eq!(verify(&page, no).is_ok(), is_sound, "page {no:?}");
}

/// All that can be asked of a sound page.
fn read(page: &[u8]) {
    match page[AT_KIND] {
        KIND_NODE => read_node(Node(page)),
        KIND_OVERFLOW => {
            overflow::header_of(page).expect("a whole page").expect("of this kind");
            overflow::append_bytes(page, &mut Vec::new()).expect("they were verified");
        }
        KIND_BITMAP => {
            let (count, free) = (bitmap::count(page), bitmap::find_free(page, 0..u64::MAX));
            assert_eq!(
                free.is_none(),
                count == bitmap::group_pages(page.len()),
                "{count} pages of {}",
                page.len()
            );
            bitmap::groups(page);
        }
        _ => (0..pending::SLOTS).for_each(|slot| {
            let again = PendingChain::read(page, slot).encode();
            assert!(page[pending::at(slot)..].starts_with(&again));
        }),
    }
    // An image produces the same page; the content of its hole does not matter.
    let mut again = vec![0xee; page.len()];
    let image = Op::image(page);
    image.apply(&mut again).expect("it is of a page of this size");
    assert_eq!(Op::image(&again), image);
    assert_eq!(verify_content(&again), Ok(()));
}

fn read_node(node: Node<&[u8]>) {
    const SOUND: &str = "what was verified is not torn";
    let (slots, level) = (node.slots().expect(SOUND), node.level().expect(SOUND));
    let fences = node.fences().expect(SOUND);
    assert_eq!(node.prefix_len(), Ok(fences.prefix_len()));
    for slot in 0..slots {
        let key = node.key(slot).expect(SOUND);
        assert!(key.starts_with(&fences.lower[..fences.prefix_len()]));
        let (found, _) = node.search(&key).expect(SOUND);
        assert!(found <= slots);
        node.stored(slot).expect(SOUND);
        node.append_value(slot, &mut Vec::new()).expect(SOUND);
        node.fits_instead(slot, key.len(), 7).expect(SOUND);
    }
    if level > 0 {
        for index in 0..=slots {
            node.child(index).expect(SOUND);
        }
        assert!(node.child_index(&fences.lower).expect(SOUND) <= slots);
    }
    // The order of keys and fences is not verified; readers detect a wrong one.
    let _ = node.advance_key(&mut fences.lower.clone());
    node.insert_pattern().expect(SOUND);
    node.fits(fences.prefix_len() + 20, 100).expect(SOUND);
    let (begin, end) = node.hole().expect(SOUND);
    assert!(begin <= end && end <= PAGE_BYTES_MIN);
    assert!(node.used_bytes().expect(SOUND) + node.free_bytes().expect(SOUND) <= PAGE_BYTES_MIN);
}

/// Pages of each kind, and changes of nodes.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let no = PageNo(7);
    let blank = || vec![0; PAGE_BYTES_MIN];
    let records = |page: &[u8], ops: &[Op<'_>]| {
        let mut bytes = Vec::new();
        [Op::image(page)].iter().chain(ops).for_each(|op| op.encode(no, PAGE_BYTES_MIN, &mut bytes));
        bytes
    };
    let fences = Fences { lower: b"share-a".to_vec(), upper: Some(b"share-x".to_vec()) };
    let mut leaf = blank();
    let mut node = NodeMut::format(&mut leaf, no, no, 0, &fences);
    for key in [&b"share-b"[..], b"share-beta", b"share-k"] {
        node.push(key, key);
    }
    let mut inner = blank();
    let mut node = NodeMut::format(&mut inner, no, no, 1, &Fences::all());
    node.set_first_child(PageNo(8));
    node.push(b"m", &9_u64.to_le_bytes()[..]);
    let mut overflow = blank();
    let header = OverflowHeader { owner: no, stamp: 3, next: PageNo(9), index: 0 };
    overflow::format_overflow(&mut overflow, no, &header, b"of a large value");
    let (mut bitmap, mut pending) = (blank(), blank());
    bitmap::format_bitmap(&mut bitmap, PageNo(1));
    pending::format_pending(&mut pending);
    assert_eq!((bitmap[AT_KIND], pending[AT_KIND]), (KIND_BITMAP, KIND_PENDING));
    let changes = [
        Op::Insert { slot: 1, key: b"share-bb", value: b"inserted"[..].into() },
        Op::Replace { slot: 0, value: b"longer than it was"[..].into() },
        Op::Remove { slot: 2 },
        Op::Cut { slot: 2, upper: b"share-c" },
        Op::Write { at: 48, bytes: &[0; 8] },
    ];
    let (child, first_child) = (11_u64.to_le_bytes(), 12_u64.to_le_bytes());
    let more = [
        Op::Insert { slot: 0, key: b"c", value: child[..].into() },
        Op::Write { at: 48, bytes: &first_child },
        Op::Cut { slot: 1, upper: b"d" },
    ];
    vec![
        records(&leaf, &changes),
        records(&inner, &more),
        records(&overflow, &[]),
        records(&bitmap, &[Op::Write { at: 40, bytes: &[0xff; 64] }]),
        records(&pending, &[Op::Write { at: 64, bytes: &[1; 32] }]),
    ]
}
