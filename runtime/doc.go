// Package runtime is what a worker process runs: it claims jobs, runs their
// handlers, keeps the lease on them, settles how they ended, and takes over
// the jobs of processes that died. Import it as pawlrt, since its name shadows
// the standard library's.
package runtime
