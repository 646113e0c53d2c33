// Package local runs sandbox sessions on this machine at tier 0: bare folders and bare processes.
//
// It owns the folders that it makes, the processes that its sessions start and the environment that they get. It does
// not own the kernel: a command at tier 0 runs as the user of the daemon and can do what that user can. Approvals and
// lists are checks in front of it, not walls around it. Scopes and network modes that only a kernel sandbox can hold
// are refused with *sandbox.UnsupportedError and never accepted unenforced.
//
// Invariants:
//
//   - File tools resolve every path by descriptor. A relative path, or an absolute one that names the session's folder,
//     never leads out of it, whatever is renamed or linked meanwhile.
//   - The environment of a process is built from a list of names and what the caller gives. It is never inherited.
//   - A command is a session and process group of its own. When it ends, is killed, or its session stops, every process
//     of its tree is killed: members of its kernel session, their descendants, and any process whose environment
//     carries the tree's HARNESS_PROC_ID, which children inherit also through setsid and double forks.
//   - When the daemon is killed, the kernel kills each command's first process (Linux); Sweep finds the rest.
//
// What tier 0 cannot catch: a process that left the kernel session, lost its parent and also dropped or overwrote its
// environment (a daemon that sets its own title, a set-user-ID program), and work handed to somebody else's daemon
// (cron, systemd, docker). Elsewhere than on Linux only the process group is followed.
package local
