// Package harnesstest holds what tests of harnesses need: a scripted adapter (Mock), a sandbox in memory (Sandbox) and
// the suite that every adapter passes (Run).
//
// The package is for tests. Mock and Sandbox follow the adapter and sandbox contracts to the letter, so that a program
// that works with them works with real ones.
package harnesstest
