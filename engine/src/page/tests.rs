use super::edit::NodeMut;
use super::node::{Fences, Node, entry_bytes_max};
use super::*;

const PAGE: usize = PAGE_BYTES_MIN;
const ROUNDS: u64 = if cfg!(miri) { 3 } else { 2000 };

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let x = self.0 ^ (self.0 >> 29);
        x.wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 16
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }
}

fn sealed_node(no: u64) -> Vec<u8> {
    let mut page = vec![0; PAGE];
    let fences = Fences { lower: b"key-1".to_vec(), upper: Some(b"key-9".to_vec()) };
    let mut node = NodeMut::format(&mut page, PageNo(no), PageNo(2), 0, &fences);
    for index in 10..90 {
        assert!(node.push(format!("key-{index}").as_bytes(), b"value"));
    }
    set_lsn(&mut page, Lsn(0x1_0000_0007));
    seal(&mut page);
    page
}

#[test]
fn a_sealed_page_passes() {
    verify(&sealed_node(7), PageNo(7)).unwrap();
    let mut bitmap = vec![0; PAGE];
    bitmap::format_bitmap(&mut bitmap, PageNo(1));
    seal(&mut bitmap);
    verify(&bitmap, PageNo(1)).unwrap();
}

/// Or a scan of a damaged tree would come to the same leaf again and again.
#[test]
fn a_fence_that_is_not_beyond_the_key_is_no_way_on() {
    let page = sealed_node(7);
    let (node, mut key) = (Node(&page[..]), b"key-50".to_vec());
    assert_eq!(node.advance_key(&mut key), Ok(true));
    assert_eq!(key, b"key-9");
    assert_eq!(node.advance_key(&mut key), Err(Torn));
}

/// Or the removal of one takes a part of the other along, or of a fence.
#[test]
fn entries_that_share_bytes_are_not_sound() {
    const SLOT: usize = node::NODE_HEADER_BYTES;
    let mut page = sealed_node(7);
    let mut shared = page.clone();
    // The second entry is the first one, and its own bytes count as dead.
    shared.copy_within(SLOT + 4..SLOT + 6, SLOT + node::SLOT_BYTES + 4);
    let bytes = node::heap_bytes(b"10".len(), b"value".len()) as u16;
    let dead = read_u16(&shared, node::AT_DEAD) + bytes;
    write_u16(&mut shared, node::AT_DEAD, dead);
    assert!(verify_content(&page).is_ok() && verify_content(&shared).is_err());
    NodeMut::new(&mut page).remove(1);
    assert!(verify_content(&page).is_ok());
    assert_eq!(read_u16(&page, node::AT_DEAD), dead, "so it would add up");
}

/// An empty fence need not lie behind what is removed.
#[test]
fn an_empty_fence_lies_anywhere() {
    let mut page = vec![0; PAGE];
    let mut node = NodeMut::format(&mut page, PageNo(7), PageNo(2), 0, &Fences::all());
    assert!(node.push(b"key", b"value"));
    let heap_begin = read_u16(&page, node::AT_HEAP_BEGIN);
    write_u16(&mut page, node::AT_LOWER, heap_begin);
    assert_eq!(verify_content(&page), Ok(()));
    NodeMut::new(&mut page).remove(0);
    assert_eq!(verify_content(&page), Ok(()));
}

#[test]
fn each_bit_counts() {
    let page = sealed_node(7);
    for byte in (0..PAGE).step_by(if cfg!(miri) { 611 } else { 7 }) {
        let mut flipped = page.clone();
        flipped[byte] ^= 1 << (byte % 8);
        assert!(verify(&flipped, PageNo(7)).is_err(), "byte {byte}");
    }
}

#[test]
fn what_is_wrong_is_said() {
    let said = |page: &[u8], no| verify(page, PageNo(no)).unwrap_err().to_string();
    assert!(said(&[0; PAGE], 7).contains("never written"));
    assert!(said(&sealed_node(8), 7).contains("page 8 was written in its place"));
    let mut torn = sealed_node(7);
    write_u32(&mut torn, PAGE - TRAILER_BYTES, 6);
    let sum = checksum(&torn, PageNo(7));
    write_u32(&mut torn, AT_CHECKSUM, sum);
    assert!(said(&torn, 7).contains("different age"));
    assert!(!said(&torn, 7).contains('\n'));
}

/// Bytes that pass the checksum but were never written by this program must not harm either.
#[test]
fn garbage_never_panics() {
    let mut random = Random(1);
    let (mut passed, base) = (0, sealed_node(7));
    for round in 0..ROUNDS {
        let mut page = base.clone();
        if round % 2 == 0 {
            page[32..].iter_mut().for_each(|byte| *byte = random.next() as u8);
        } else {
            for _ in 0..1 + random.below(4) {
                // Within header and slots, where it hurts.
                let at = 32 + random.below(300);
                page[at] = random.next() as u8;
            }
        }
        seal(&mut page);
        read_everything(Node(&page[..]), &mut random);
        if verify(&page, PageNo(7)).is_ok() {
            passed += 1;
            edit_a_little(&mut page, &mut random);
        }
    }
    assert!(cfg!(miri) || passed > 0, "some changes are to heads, which any value may have");
}

fn read_everything(node: Node<&[u8]>, random: &mut Random) {
    let key: Vec<u8> = (0..random.below(12)).map(|_| random.next() as u8).collect();
    let _ =
        (node.search(&key), node.child_index(b"key-50"), node.fences(), node.used_bytes(), node.fits(9, 9));
    let mut out = Vec::new();
    for slot in 0..node.slots().unwrap_or(0).min(100) + 1 {
        let _ = (node.key(slot), node.child(slot), node.append_value(slot, &mut out));
        out.clear();
    }
}

/// What passed may be edited: wrong results perhaps, no panic.
fn edit_a_little(page: &mut [u8], random: &mut Random) {
    for _ in 0..20 {
        let node = Node(&*page);
        let slots = node.slots().unwrap();
        if random.below(2) == 0 && slots > 0 {
            NodeMut::new(page).remove(random.below(slots));
        } else if node.fits(8, 40) == Ok(true) {
            NodeMut::new(page).insert(random.below(slots + 1), b"key-4567", &[1; 40]);
        }
    }
}

#[test]
fn inserts_removes_and_replacements_keep_order_and_space() {
    let mut random = Random(2);
    let mut page = vec![0; PAGE];
    let fences = Fences { lower: b"abc".to_vec(), upper: Some(b"abd".to_vec()) };
    NodeMut::format(&mut page, PageNo(3), PageNo(2), 0, &fences);
    let mut model = std::collections::BTreeMap::new();
    for _ in 0..if cfg!(miri) { 100 } else { 20_000 } {
        let mut key = b"abc".to_vec();
        key.extend((0..random.below(7)).map(|_| random.below(3) as u8));
        let value = vec![random.next() as u8; random.below(120)];
        let node = Node(&page[..]);
        let (slot, found) = node.search(&key).unwrap();
        assert_eq!(found, model.contains_key(&key));
        match (found, random.below(3)) {
            (true, 0) => {
                NodeMut::new(&mut page).remove(slot);
                model.remove(&key);
            }
            (true, _) if node.fits_instead(slot, key.len(), value.len()).unwrap() => {
                NodeMut::new(&mut page).replace(slot, &key, &value).unwrap();
                model.insert(key, value);
            }
            (false, _) if node.fits(key.len(), value.len()).unwrap() => {
                assert!(NodeMut::new(&mut page).insert(slot, &key, &value));
                model.insert(key, value);
            }
            _ => {}
        }
    }
    assert!(node::verify(&page).is_ok());
    let node = Node(&page[..]);
    assert_eq!(node.slots().unwrap(), model.len());
    for (slot, (key, value)) in model.iter().enumerate() {
        let mut found = Vec::new();
        node.append_value(slot, &mut found).unwrap();
        assert_eq!((&node.key(slot).unwrap(), &found), (key, value));
    }
}

#[test]
fn short_suffixes_order_by_length_behind_equal_heads() {
    let keys: [&[u8]; 7] = [b"", b"a", b"a\0", b"a\0\0\0", b"a\0\0\0\0", b"a\0\0\0\x01", b"b"];
    let mut page = vec![0; PAGE];
    NodeMut::format(&mut page, PageNo(3), PageNo(2), 0, &Fences::all());
    for key in keys.iter().rev() {
        let (slot, found) = Node(&page[..]).search(key).unwrap();
        assert!(!found);
        assert!(NodeMut::new(&mut page).insert(slot, key, b"v"));
    }
    for (index, key) in keys.iter().enumerate() {
        assert_eq!(Node(&page[..]).search(key), Ok((index, true)));
        assert_eq!(Node(&page[..]).key(index).unwrap(), *key);
    }
}

#[test]
fn two_entries_of_any_allowed_size_fit_beside_fences_of_that_size() {
    let max = entry_bytes_max(PAGE);
    let fences = Fences { lower: vec![1; max], upper: Some(vec![2; max]) };
    let mut page = vec![0; PAGE];
    let mut node = NodeMut::format(&mut page, PageNo(3), PageNo(2), 0, &fences);
    assert!(node.push(&vec![1; max], b""));
    assert!(node.push(b"\x02", &vec![0; max - 1]));
}

#[test]
fn an_overflow_page_is_read_as_it_was_made_and_its_length_is_not_trusted() {
    use super::overflow::{OverflowHeader, append_bytes, bytes_per_page, format_overflow, header_of};
    let header = OverflowHeader { owner: PageNo(3), stamp: 77, next: PageNo(9), index: 5 };
    for bytes in [1, 100, bytes_per_page(PAGE)] {
        let (mut page, value) = (vec![1; PAGE], vec![8; bytes]);
        format_overflow(&mut page, PageNo(4), &header, &value);
        let mut again = vec![2; PAGE];
        super::op::Op::image(&page).apply(&mut again).unwrap();
        assert_eq!(again, page);
        seal(&mut page);
        verify(&page, PageNo(4)).unwrap();
        let mut out = Vec::new();
        assert_eq!(header_of(&page[..]), Ok(Some(header)));
        append_bytes(&page[..], &mut out).unwrap();
        assert_eq!(out, value);
        page[52..56].copy_from_slice(&(bytes_per_page(PAGE) as u32 + 1).to_le_bytes());
        seal(&mut page);
        assert!(verify(&page, PageNo(4)).is_err());
    }
}
