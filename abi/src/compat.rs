//! The calls of the 32-bit table that are calls of the table of `x86_64`: by `int $0x80`, and by a 32-bit program.
//!
//! Where no filter refuses them they are calls like any other, whose arguments stand in other registers
//! (arch/x86/entry/syscalls/syscall_32.tbl). A call is taken for the one that does the same with the same arguments in the same
//! order; where only the width of what they lead to differs (`stat64`, `utimensat_time64`), that is the one as well.

use crate::syscalls::{CLASSES, COUNT, class, on};

/// The number that stands for a call which none of `x86_64` is like: one whose arguments are in memory, such as `socketcall`
/// and `ipc`, and one that no kernel has any more. It is in no table.
pub const UNLIKE: u16 = u16::MAX;

/// The first number that both tables have in common, with all above it.
const COMMON: usize = 424;

/// By number in the 32-bit table: the number in that of `x86_64`, or [`UNLIKE`].
pub const NUMBERS: [u16; COUNT] = {
    let mut numbers = [UNLIKE; COUNT];
    let mut number = 0;
    while number < COUNT {
        numbers[number] = if number < COMMON {
            FORMER[number]
        } else {
            number as u16
        };
        number += 1;
    }
    numbers
};

/// By number, of whichever table: 1 where such a call may have to be looked at as it begins. Of the table of `x86_64` that is every
/// one that is looked at but for looks; of that of 32 bits those of which the programs decide something then.
pub const BEGUN: [u8; COUNT] = {
    let mut begun = [0; COUNT];
    let mut number = 0;
    while number < COUNT {
        let alike = NUMBERS[number] as usize;
        let is_begun = alike < COUNT && decides(CLASSES[alike]);
        let is_look = matches!(CLASSES[number], class::LOOK..=class::WATCHES);
        if is_begun || CLASSES[number] != class::NONE && !is_look {
            begun[number] = 1;
        }
        number += 1;
    }
    begun
};

/// True for the classes of calls of which something is decided or noted as they begin.
const fn decides(of: u8) -> bool {
    const BPF: u8 = class::WATCH + on::BPF;
    matches!(
        of,
        class::OPEN..=class::OPENAT2
            | class::EXECVE..=class::EXECVEAT
            | class::MMAP..=class::SHMAT
            | class::SYMLINK..=class::SYMLINKAT
            | BPF
    )
}

const NO: u16 = UNLIKE;

/// The numbers that were given before the tables grew alike; behind each row stands the first of its ten.
#[rustfmt::skip]
const FORMER: [u16; COMMON] = [
    219, 60, 57, 0, 1, 2, 3, 61, 85, 86, // 0
    87, 59, 80, 201, 133, 90, 94, NO, 4, 8, // 10
    39, 165, 166, 105, 102, 164, 101, 37, 5, 34, // 20
    132, NO, NO, 21, NO, NO, 162, 62, 82, 83, // 30
    84, 32, 22, 100, NO, 12, 106, 104, 13, 107, // 40
    108, 163, 166, NO, 16, 72, NO, 109, NO, 63, // 50
    95, 161, 136, 33, 110, 111, 112, 13, 14, 14, // 60
    113, 114, 130, 127, 170, 160, 97, 98, 96, 164, // 70
    115, 116, 23, 88, 6, 89, 134, 167, 169, 78, // 80
    NO, 11, 76, 77, 91, 93, 140, 141, NO, 137, // 90
    138, 173, NO, 103, 38, 36, 4, 6, 5, 63, // 100
    172, 153, NO, NO, 61, 168, 99, NO, 74, 15, // 110
    56, 171, 63, 154, 159, 10, 14, 174, 175, 176, // 120
    177, 179, 121, 81, NO, 139, 135, 183, 122, 123, // 130
    8, 78, 23, 73, 26, 19, 20, 124, 75, 156, // 140
    149, 150, 151, 152, 142, 143, 144, 145, 24, 146, // 150
    147, 148, 35, 25, 117, 118, NO, 178, 7, 180, // 160
    119, 120, 157, 15, 13, 14, 127, 128, 129, 130, // 170
    17, 18, 92, 79, 125, 126, 131, 40, 181, 182, // 180
    58, 97, 9, 76, 77, 4, 6, 5, 94, 102, // 190
    104, 107, 108, 113, 114, 115, 116, 93, 117, 118, // 200
    119, 120, 92, 105, 106, 122, 123, 155, 27, 28, // 210
    217, 72, NO, NO, 186, 187, 188, 189, 190, 191, // 220
    192, 193, 194, 195, 196, 197, 198, 199, 200, 40, // 230
    202, 203, 204, 205, 211, 206, 207, 208, 209, 210, // 240
    221, NO, 231, 212, 213, 233, 232, 216, 218, 222, // 250
    223, 224, 225, 226, 227, 228, 229, 230, 137, 138, // 260
    234, 235, 221, 236, 237, 239, 238, 240, 241, 242, // 270
    243, 244, 245, 246, 247, NO, 248, 249, 250, 251, // 280
    252, 253, 254, 255, 256, 257, 258, 259, 260, 261, // 290
    262, 263, 264, 265, 266, 267, 268, 269, 270, 271, // 300
    272, 273, 274, 275, 277, 276, 278, 279, 309, 281, // 310
    280, 282, 283, 284, 285, 286, 287, 289, 290, 291, // 320
    292, 293, 294, 295, 296, 297, 298, 299, 300, 301, // 330
    302, 303, 304, 305, 306, 307, 308, 310, 311, 312, // 340
    313, 314, 315, 316, 317, 318, 319, 321, 322, 41, // 350
    53, 49, 42, 50, 288, 55, 54, 51, 52, 44, // 360
    46, 45, 47, 48, 323, 324, 325, 326, 327, 328, // 370
    329, 330, 331, 332, 158, 333, 334, NO, NO, NO, // 380
    NO, NO, NO, 64, 66, 29, 31, 30, 67, 68, // 390
    69, 70, 71, 228, 227, 305, 229, 230, 224, 223, // 400
    287, 286, 280, 270, 271, NO, 333, 299, 242, 243, // 410
    220, 128, 202, 148, // 420
];
