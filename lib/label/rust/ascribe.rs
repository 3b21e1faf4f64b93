// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only OR BSD-2-Clause
//! Labels of the calling thread, for the ascribe profiler.
//!
//!     let _l = ascribe::label("tenant", tenant);      // to the end of the block
//!     ascribe::carry(async move { ... })              // a future whose labels travel with it
//!
//! Copy this file as src/ascribe.rs; link with libascribe-label.so.
#![allow(dead_code)]
use std::future::Future;
use std::marker::PhantomData;
use std::os::raw::{c_int, c_void};
use std::pin::Pin;
use std::task::{Context, Poll};

#[link(name = "ascribe-label")]
extern "C" {
    fn ascribe_thread_set(key: *const u8, key_len: usize, value: *const u8, len: usize) -> c_int;
    fn ascribe_thread_set_int(key: *const u8, key_len: usize, value: i64) -> c_int;
    fn ascribe_thread_save(out: *mut c_void, size: usize) -> c_int;
    fn ascribe_thread_restore(saved: *const c_void, size: usize) -> c_int;
}

const SAVED_MAX: usize = 672;

/// The labels of a thread by value; any thread may attach them.
#[derive(Clone)]
pub struct Labels {
    size: usize,
    bytes: [u8; SAVED_MAX],
}

impl Labels {
    pub fn current() -> Labels {
        let mut l = Labels { size: 0, bytes: [0; SAVED_MAX] };
        let n = unsafe { ascribe_thread_save(l.bytes.as_mut_ptr().cast(), SAVED_MAX) };
        l.size = n.max(0) as usize;
        l
    }

    /// Replace the labels of this thread until the guard is dropped.
    pub fn attach(&self) -> Guard {
        let guard = Guard::new();
        self.restore();
        guard
    }

    fn restore(&self) {
        unsafe { ascribe_thread_restore(self.bytes.as_ptr().cast(), self.size) };
    }
}

/// Brings back the labels that were, on the thread that made it.
#[must_use]
pub struct Guard {
    before: Labels,
    thread: PhantomData<*const ()>, // not Send
}

impl Guard {
    fn new() -> Guard {
        Guard { before: Labels::current(), thread: PhantomData }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.before.restore();
    }
}

/// A label that does not fit is left out.
pub fn label(key: &str, value: &str) -> Guard {
    let guard = Guard::new();
    unsafe { ascribe_thread_set(key.as_ptr(), key.len(), value.as_ptr(), value.len()) };
    guard
}

pub fn label_int(key: &str, value: i64) -> Guard {
    let guard = Guard::new();
    unsafe { ascribe_thread_set_int(key.as_ptr(), key.len(), value) };
    guard
}

/// A future that has the labels of now, and those that it sets, at each poll and not between.
pub struct Carry<F> {
    future: Pin<Box<F>>,
    labels: Labels,
}

pub fn carry<F: Future>(future: F) -> Carry<F> {
    Carry { future: Box::pin(future), labels: Labels::current() }
}

impl<F: Future> Future for Carry<F> {
    type Output = F::Output;
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let _outer = self.labels.attach();
        let result = self.future.as_mut().poll(context);
        self.labels = Labels::current();
        result
    }
}
