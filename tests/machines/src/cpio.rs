//! The initramfs: an archive in the kernel's `newc` format, written here because it is twenty
//! lines (Documentation/driver-api/early-userspace/buffer-format.rst).

/// An archive that grows entry by entry.
#[derive(Default)]
pub struct Archive {
    bytes: Vec<u8>,
    entries: u32,
}

const FOLDER: u32 = 0o04_0755;
const PROGRAM: u32 = 0o10_0755;
const CHARACTER_DEVICE: u32 = 0o02_0600;

impl Archive {
    /// With a folder.
    pub fn folder(&mut self, name: &str) {
        self.entry(name, FOLDER, (0, 0), &[]);
    }

    /// With a file that can be executed.
    pub fn file(&mut self, name: &str, content: &[u8]) {
        self.entry(name, PROGRAM, (0, 0), content);
    }

    /// With a character device, by its major and minor number.
    pub fn device(&mut self, name: &str, number: (u32, u32)) {
        self.entry(name, CHARACTER_DEVICE, number, &[]);
    }

    /// The whole archive.
    pub fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, (0, 0), &[]);
        self.bytes
    }

    fn entry(&mut self, name: &str, mode: u32, device: (u32, u32), content: &[u8]) {
        self.entries += 1;
        // Nothing in an initramfs comes near 4 GiB, which is as far as the format goes.
        let size = u32::try_from(content.len()).unwrap_or(u32::MAX);
        let name_size = u32::try_from(name.len() + 1).unwrap_or(u32::MAX);
        let (major, minor) = device;
        let fields = [
            self.entries,
            mode,
            0,
            0,
            1,
            0,
            size,
            0,
            0,
            major,
            minor,
            name_size,
            0,
        ];
        self.bytes.extend(b"070701");
        for field in fields {
            self.bytes.extend(format!("{field:08X}").into_bytes());
        }
        self.bytes.extend(name.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend(content);
        self.pad();
    }

    fn pad(&mut self) {
        let padded = self.bytes.len().next_multiple_of(4);
        self.bytes.resize(padded, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_is_110_bytes_and_everything_is_padded_to_four() {
        let mut archive = Archive::default();
        archive.file("init", b"12345");
        let bytes = archive.finish();
        let text = String::from_utf8_lossy(&bytes);
        assert!(text.starts_with("07070100000001000081ED"), "{text}");
        assert_eq!(&bytes[110..115], b"init\0");
        // 110 + 5 is padded to 116, and 5 bytes of content to 124, where the trailer starts.
        assert_eq!(&bytes[116..121], b"12345");
        assert_eq!(&bytes[124..130], b"070701");
        assert!(text.contains("TRAILER!!!"));
    }

    #[test]
    fn device_carries_its_number() {
        let mut archive = Archive::default();
        archive.device("dev/console", (5, 1));
        let text = String::from_utf8_lossy(&archive.finish()).into_owned();
        assert_eq!(&text[14..22], "00002180");
        assert_eq!(&text[78..94], "0000000500000001");
    }
}
