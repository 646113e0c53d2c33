package local

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// proc is a line of the process table. start is in clock ticks since boot; with the number it names a process.
type proc struct {
	pid, ppid, pgrp, sid int
	state                byte
	kernel               bool // a thread of the kernel
	start                uint64
}

type procKey struct {
	pid   int
	start uint64
}

func (p proc) key() procKey { return procKey{p.pid, p.start} }
func (p proc) dead() bool   { return p.state == 'Z' || p.state == 'X' || p.state == 'x' }

// procUsable tells whether /proc shows this process under its own number.
var procUsable = sync.OnceValue(func() bool {
	self, err := os.Readlink("/proc/self")
	return err == nil && self == strconv.Itoa(os.Getpid())
})

// listProcs is the process table.
func listProcs() []proc {
	d, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer d.Close()
	names, _ := d.Readdirnames(-1)
	out := make([]proc, 0, len(names))
	for _, n := range names {
		if n[0] < '0' || n[0] > '9' {
			continue
		}
		if pid, err := strconv.Atoi(n); err == nil {
			if p, ok := readProc(pid); ok {
				out = append(out, p)
			}
		}
	}
	return out
}

// youngerThan lists the processes whose numbers were given out after pid's. ok is false where that cannot be told:
// numbers began again from the bottom, are too many, or the kernel's file is somebody else's.
func youngerThan(pid int) (out []proc, ok bool) {
	var buf [128]byte
	n, isProc := readSmall("/proc/loadavg", buf[:])
	if !isProc {
		return nil, false
	}
	last, ok := lastPID(buf[:n])
	if !ok || last < pid || last-pid > maxYoung {
		return nil, false
	}
	for n := pid + 1; n <= last; n++ {
		if p, ok := readProc(n); ok {
			out = append(out, p)
		}
	}
	return out, true
}

// lastPID reads the last field of /proc/loadavg, the number given out last.
func lastPID(line []byte) (int, bool) {
	f := bytes.Fields(line)
	if len(f) != 5 {
		return 0, false
	}
	n, err := strconv.Atoi(string(f[4]))
	return n, err == nil && n > 0
}

func readProc(pid int) (proc, bool) {
	var buf [1024]byte
	n, ok := readSmall("/proc/"+strconv.Itoa(pid)+"/stat", buf[:])
	if !ok {
		return proc{}, false
	}
	return parseStat(buf[:n])
}

// parseStat reads a line of /proc/<pid>/stat. The program's name, second, may hold spaces and brackets.
func parseStat(line []byte) (p proc, ok bool) {
	open, end := bytes.IndexByte(line, '('), bytes.LastIndexByte(line, ')')
	if open < 1 || end < open {
		return p, false
	}
	num := func(b []byte) int {
		n, err := strconv.Atoi(string(b))
		if err != nil {
			ok = false
		}
		return n
	}
	f := bytes.Fields(line[end+1:])
	if len(f) < 20 || len(f[0]) != 1 {
		return p, false
	}
	ok = true
	p = proc{pid: num(bytes.TrimSpace(line[:open])), state: f[0][0], ppid: num(f[1]), pgrp: num(f[2]), sid: num(f[3])}
	const kernelThread = 0x200000 // PF_KTHREAD
	p.kernel = num(f[6])&kernelThread != 0
	start, err := strconv.ParseUint(string(f[19]), 10, 64)
	p.start = start
	return p, ok && err == nil
}

// readSmall reads a file of procfs into b, in few system calls: a scan reads hundreds. ok is false for files that are
// not procfs's own.
func readSmall(name string, b []byte) (n int, ok bool) {
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, false
	}
	defer unix.Close(fd)
	if name == "/proc/loadavg" { // some containers put another file there
		var st unix.Statfs_t
		if unix.Fstatfs(fd, &st) != nil || st.Type != unix.PROC_SUPER_MAGIC {
			return 0, false
		}
	}
	for {
		n, err = unix.Read(fd, b)
		if err != unix.EINTR {
			return max(n, 0), err == nil
		}
	}
}

const (
	environChunk = 64 << 10
	// maxEnviron bounds what is read of one environment.
	maxEnviron = 8 << 20
	// emptyTries and emptyPause are how an empty environment is looked at again.
	emptyTries = 3
	emptyPause = 200 * time.Microsecond
)

var environBufs = sync.Pool{New: func() any { b := make([]byte, environChunk); return &b }}

// findMark gives the value of the mark in a process's environment, if it starts with prefix. The environment is the
// one that the process was started with; other users' cannot be read.
func findMark(pid int, prefix string) (string, bool) {
	fd, err := unix.Open("/proc/"+strconv.Itoa(pid)+"/environ", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", false
	}
	defer unix.Close(fd)
	bp := environBufs.Get().(*[]byte)
	defer environBufs.Put(bp)
	buf, have, again := *bp, 0, 0
	for read := 0; read < maxEnviron; {
		n, err := unix.Read(fd, buf[have:])
		if err == unix.EINTR {
			continue
		}
		if n == 0 && read == 0 && again < emptyTries {
			// Empty for the moment in which a process becomes another program, which one must not hide in.
			again++
			time.Sleep(emptyPause)
			continue
		}
		last := err != nil || n <= 0
		if !last {
			have, read = have+n, read+n
		}
		rest, value, ok := scanMark(buf[:have], prefix, last)
		if ok || last {
			return value, ok
		}
		if len(rest) == len(buf) {
			rest = nil // one variable longer than the buffer is not the mark
		}
		have = copy(buf, rest)
	}
	return "", false
}

// scanMark looks through NUL-terminated variables and gives back the part that is not complete yet.
func scanMark(b []byte, prefix string, last bool) (rest []byte, value string, ok bool) {
	for len(b) > 0 {
		v, after, whole := bytes.Cut(b, []byte{0})
		if !whole && !last {
			return b, "", false
		}
		if m, is := strings.CutPrefix(string(v), procIDVar+"="); is && strings.HasPrefix(m, prefix) {
			return nil, m, true
		}
		b = after
	}
	return nil, "", false
}

func hasMark(pid int, mark string) bool {
	m, ok := findMark(pid, mark)
	return ok && m == mark
}
