// SPDX-License-Identifier: Apache-2.0

// truth.h in Rust: the work is in a closure behind a trait object.
use std::hint::black_box;

#[repr(C)]
struct Timespec {
    sec: i64,
    nsec: i64,
}

extern "C" {
    fn clock_gettime(clock: i32, time: *mut Timespec) -> i32;
    fn prctl(option: i32, ...) -> i32;
}

fn cpu() -> f64 {
    let mut t = Timespec { sec: 0, nsec: 0 };
    unsafe { clock_gettime(3, &mut t) };
    t.sec as f64 + t.nsec as f64 / 1e9
}

fn rename(name: &str) {
    let text = std::ffi::CString::new(name).unwrap();
    unsafe { prctl(15, text.as_ptr()) };
}

#[inline(never)]
fn three(n: u32) -> u64 { // <three>
    let mut x = u64::from(n);
    for _ in 0..n * 800 {
        x = x.wrapping_mul(6364136223846793005).wrapping_add(x >> 33);
    }
    black_box(x)
} // </three>

#[inline(never)]
fn one(n: u32) -> u64 { // <one>
    let mut x = u64::from(n);
    for _ in 0..n * 800 {
        x = x.wrapping_mul(3935559000370003845).wrapping_add(x >> 31);
    }
    black_box(x)
} // </one>

#[inline(never)]
fn by(part: &dyn Fn() -> u64) -> u64 {
    black_box(part()) ^ 1
}

#[inline(never)]
fn run(took: &mut [f64; 2], n: u32) {
    let begin = cpu();
    let x = by(&|| three(3 * n) ^ 1);
    let middle = cpu();
    let y = by(&|| one(n) ^ 1);
    took[0] += middle - begin;
    took[1] += cpu() - middle;
    black_box(x ^ y);
}

#[inline(never)]
fn trials(n: u32, seconds: f64, first: u32) {
    let mut state = first + 1;
    for i in first..first + n {
        let mut took = [0.0, 0.0];
        let name = format!("truth.{i}");
        rename(&name);
        let begin = cpu();
        while cpu() - begin < seconds {
            state = state.wrapping_mul(1664525).wrapping_add(1013904223);
            run(&mut took, 20 + (state >> 16) % 80);
        }
        let all = cpu() - begin;
        rename("rest");
        println!("{name} {:.9} {:.9} {all:.9}", took[0], took[1]);
    }
}

fn main() {
    let v: Vec<String> = std::env::args().collect();
    trials(v[1].parse().unwrap(), v[2].parse::<f64>().unwrap() / 1e3, v[3].parse().unwrap());
    black_box(0);
}
