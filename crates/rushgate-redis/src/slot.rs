//! The Cluster slot of a key.

/// The number of slots in a Cluster.
pub(crate) const SLOTS: usize = 16_384;

/// The slot of a key, or of its hash tag if it has one.
pub(crate) fn slot(key: &[u8]) -> u16 {
    crc16(tag(key)) % SLOTS as u16
}

/// The hash tag: the text between the first `{` and the next `}`, or the whole key.
fn tag(key: &[u8]) -> &[u8] {
    let open = key.iter().position(|byte| *byte == b'{');
    let inner = open.and_then(|open| {
        let rest = &key[open + 1..];
        let close = rest.iter().position(|byte| *byte == b'}')?;
        Some(&rest[..close])
    });
    inner.filter(|inner| !inner.is_empty()).unwrap_or(key)
}

/// CRC-16/XMODEM, which a Cluster uses to distribute keys.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| (crc << 8) ^ TABLE[usize::from((crc >> 8) as u8 ^ byte)])
}

const TABLE: [u16; 256] = {
    let mut table = [0; 256];
    let mut at = 0;
    while at < 256 {
        let mut crc = (at as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 };
            bit += 1;
        }
        table[at] = crc;
        at += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_the_specification() {
        assert_eq!(crc16(b"123456789"), 0x31c3);
        assert_eq!(slot(b"foo"), 12182);
        assert_eq!(slot(b"{user1000}.following"), slot(b"user1000"));
        assert_eq!(slot(b"foo{}{bar}"), crc16(b"foo{}{bar}") % 16_384);
        assert_eq!(slot(b"foo{{bar}}zap"), slot(b"{bar"));
        assert_eq!(slot(b"foo{bar}{zap}"), slot(b"bar"));
        assert_eq!(slot(b"foo{bar"), crc16(b"foo{bar") % 16_384);
    }
}
