//! Static programs of a few instructions: a measurement of their start has no dynamic linker in it.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use anyhow::Context;

/// Where a program is loaded.
const BASE: u64 = 0x40_0000;
/// The file header and one program header, after which the code begins.
const HEADERS_LEN: u64 = 64 + 56;

/// A program, by its system calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Program {
    /// `exit_group(0)`.
    ExitAtOnce,
    /// `write(1, "E", 1)`, then `exit_group(0)`: the byte shows when the program was executed.
    FirstByte,
    /// Waits for signals until one ends it.
    Pause,
}

impl Program {
    /// Writes the program to a file, executable by everybody.
    ///
    /// # Errors
    /// The file cannot be written, or this processor has no such program.
    pub(super) fn write(self, path: &Path) -> anyhow::Result<()> {
        let code = self
            .code()
            .context("no smallest program for this processor")?;
        std::fs::write(path, elf(code)).with_context(|| format!("write {}", path.display()))?;
        std::fs::set_permissions(path, Permissions::from_mode(0o755))?;
        Ok(())
    }

    fn code(self) -> Option<&'static [u8]> {
        if cfg!(target_arch = "x86_64") {
            Some(self.x86_64())
        } else if cfg!(target_arch = "aarch64") {
            Some(self.aarch64())
        } else {
            None
        }
    }

    /// The byte written is the second one of the file, which is loaded at [`BASE`].
    fn x86_64(self) -> &'static [u8] {
        match self {
            // mov eax, 231; xor edi, edi; syscall
            Self::ExitAtOnce => &[0xb8, 0xe7, 0, 0, 0, 0x31, 0xff, 0x0f, 0x05],
            // mov eax, 1; mov edi, 1; mov esi, BASE + 1; mov edx, 1; syscall; then as above
            Self::FirstByte => &[
                0xb8, 1, 0, 0, 0, 0xbf, 1, 0, 0, 0, 0xbe, 1, 0, 0x40, 0, 0xba, 1, 0, 0, 0, 0x0f,
                0x05, 0xb8, 0xe7, 0, 0, 0, 0x31, 0xff, 0x0f, 0x05,
            ],
            // mov eax, 34; syscall; jmp to the beginning
            Self::Pause => &[0xb8, 0x22, 0, 0, 0, 0x0f, 0x05, 0xeb, 0xf7],
        }
    }

    fn aarch64(self) -> &'static [u8] {
        match self {
            // mov x8, 94; mov x0, 0; svc 0
            Self::ExitAtOnce => &[0xc8, 0x0b, 0x80, 0xd2, 0, 0, 0x80, 0xd2, 1, 0, 0, 0xd4],
            // mov x8, 64; mov x0, 1; mov x1, 1; movk x1, 0x40, lsl 16; mov x2, 1; svc 0; as above
            Self::FirstByte => &[
                0x08, 0x08, 0x80, 0xd2, 0x20, 0, 0x80, 0xd2, 0x21, 0, 0x80, 0xd2, 0x01, 0x08, 0xa0,
                0xf2, 0x22, 0, 0x80, 0xd2, 1, 0, 0, 0xd4, 0xc8, 0x0b, 0x80, 0xd2, 0, 0, 0x80, 0xd2,
                1, 0, 0, 0xd4,
            ],
            // mov x8, 73 (ppoll); mov x0 to x3, 0; svc 0; b to the beginning
            Self::Pause => &[
                0x28, 0x09, 0x80, 0xd2, 0, 0, 0x80, 0xd2, 1, 0, 0x80, 0xd2, 2, 0, 0x80, 0xd2, 3, 0,
                0x80, 0xd2, 1, 0, 0, 0xd4, 0xfa, 0xff, 0xff, 0x17,
            ],
        }
    }
}

/// A static ELF program (elf(5)) of this code.
fn elf(code: &[u8]) -> Vec<u8> {
    let machine: u16 = if cfg!(target_arch = "x86_64") {
        62
    } else {
        183
    };
    let len = HEADERS_LEN + code.len() as u64;
    let mut elf = vec![0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let half = |elf: &mut Vec<u8>, v: u16| elf.extend(v.to_le_bytes());
    let word = |elf: &mut Vec<u8>, v: u32| elf.extend(v.to_le_bytes());
    let long = |elf: &mut Vec<u8>, v: u64| elf.extend(v.to_le_bytes());
    // The file header: executable, entry right after the headers, one program header.
    half(&mut elf, 2);
    half(&mut elf, machine);
    word(&mut elf, 1);
    long(&mut elf, BASE + HEADERS_LEN);
    long(&mut elf, 64);
    long(&mut elf, 0);
    word(&mut elf, 0);
    for value in [64, 56, 1, 0, 0, 0] {
        half(&mut elf, value);
    }
    // The program header: load the whole file, readable and executable.
    word(&mut elf, 1);
    word(&mut elf, 5);
    long(&mut elf, 0);
    long(&mut elf, BASE);
    long(&mut elf, BASE);
    long(&mut elf, len);
    long(&mut elf, len);
    long(&mut elf, 4096);
    elf.extend_from_slice(code);
    elf
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn command(program: Program) -> (tempfile::TempDir, Command) {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("program");
        program.write(&path).unwrap();
        let command = Command::new(&path);
        (scratch, command)
    }

    #[test]
    fn the_smallest_program_runs_and_exits_0() {
        let (_scratch, mut command) = command(Program::ExitAtOnce);
        assert_eq!(command.status().unwrap().code(), Some(0));
    }

    #[test]
    fn the_first_byte_arrives_and_the_program_exits_0() {
        let (_scratch, mut command) = command(Program::FirstByte);
        let output = command.output().unwrap();
        assert_eq!(
            (output.status.code(), output.stdout),
            (Some(0), b"E".to_vec())
        );
    }

    #[test]
    fn a_pausing_program_runs_until_it_is_killed() {
        let (_scratch, mut command) = command(Program::Pause);
        let mut child = command.spawn().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(20));
        assert_eq!(child.try_wait().unwrap(), None);
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
