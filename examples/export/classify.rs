//! Names the clothes in a picture of 28 x 28 grey pixels (PGM), with the network inside the package as a library:
//!
//!     cenote export src/cenote/data/fashion.onnx -o out --name fashion --target x86-64
//!     rustc -O -L out examples/export/classify.rs -o classify
//!     ./classify shoe.pgm

use std::ffi::c_void;
use std::{env, fs, process};

const PIXELS: usize = 28 * 28;
const CLASSES: usize = 10;
const NAMES: [&str; CLASSES] = [
    "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
];

mod native {
    use std::ffi::c_void;

    // As fashion.h says it.
    #[link(name = "fashion", kind = "static")]
    extern "C" {
        pub fn fashion_workspace() -> usize;
        pub fn fashion_run(input0: *const f32, output0: *mut f32, workspace: *mut c_void) -> i32;
    }
}

/// The network with the memory that its runs work in.
struct Network {
    workspace: Vec<u8>,
}

impl Network {
    fn new() -> Network {
        // Safe: the function takes nothing and only returns a number.
        Network { workspace: vec![0; unsafe { native::fashion_workspace() }] }
    }

    /// The scores of a picture. `&mut`: a workspace serves one run at a time.
    fn run(&mut self, picture: &[f32; PIXELS]) -> [f32; CLASSES] {
        let mut scores = [0.0; CLASSES];
        let workspace = self.workspace.as_mut_ptr() as *mut c_void;
        // Safe: the arrays have the sizes of the header, by their types, and the workspace has what it asks for.
        let status = unsafe { native::fashion_run(picture.as_ptr(), scores.as_mut_ptr(), workspace) };
        assert_eq!(status, 0, "a null pointer");
        scores
    }
}

/// A binary PGM of 28 x 28 pixels as numbers from 0 to 1.
fn read_picture(path: &str) -> Option<[f32; PIXELS]> {
    let bytes = fs::read(path).ok()?;
    let pixels = bytes.len().checked_sub(PIXELS)?;
    let head: Vec<&str> = std::str::from_utf8(&bytes[..pixels]).ok()?.split_whitespace().collect();
    let mut picture = [0.0; PIXELS];
    for (place, byte) in picture.iter_mut().zip(&bytes[pixels..]) {
        *place = f32::from(*byte) / 255.0;
    }
    (head == ["P5", "28", "28", "255"]).then_some(picture)
}

fn main() {
    let path = env::args().nth(1).unwrap_or_default();
    let Some(picture) = read_picture(&path) else {
        eprintln!("usage: classify PICTURE.pgm (28 x 28 pixels, 255 is white)");
        process::exit(2);
    };
    let scores = Network::new().run(&picture);
    let best = (0..CLASSES).max_by(|&a, &b| scores[a].total_cmp(&scores[b])).unwrap_or(0);
    println!("{}", NAMES[best]);
}
