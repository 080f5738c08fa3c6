// Package tasks declares the work of the benchmark, as an application would.
// Every kind has a payload of about a hundred bytes, the same for all.
package tasks

import "github.com/pawlgo/pawl/task"

//go:generate go tool taskgen

// Work is what most scenarios are about: one plain job.
//
//task:queue bench
//task:timeout 1m
type Work struct{ task.Task[WorkArgs] }

// WorkArgs is the payload of Work.
type WorkArgs struct {
	Number  int64  `json:"number"`
	Account string `json:"account"`
	Note    string `json:"note"`
}

// Aside is work in a queue of its own, beside the one that is measured.
//
//task:queue aside
//task:timeout 1m
type Aside struct{ task.Task[AsideArgs] }

// AsideArgs is the payload of Aside.
type AsideArgs struct {
	Number  int64  `json:"number"`
	Account string `json:"account"`
	Note    string `json:"note"`
}

// Once is work with an idempotency key.
//
//task:queue once
//task:timeout 1m
//task:idempotency fields=Number keep=1h
type Once struct{ task.Task[OnceArgs] }

// OnceArgs is the payload of Once.
type OnceArgs struct {
	Number  int64  `json:"number"`
	Account string `json:"account"`
	Note    string `json:"note"`
}

// Ordered is work that is done one at a time for each account.
//
//task:queue ordered
//task:timeout 1m
//task:order fields=Account
type Ordered struct{ task.Task[OrderedArgs] }

// OrderedArgs is the payload of Ordered.
type OrderedArgs struct {
	Number  int64  `json:"number"`
	Account string `json:"account"`
	Note    string `json:"note"`
}

// Flaky is work that is tried again a second after it failed.
//
//task:queue flaky
//task:timeout 1m
//task:retry attempts=5 base=1s max=1s jitter=0 unknown=5
type Flaky struct{ task.Task[FlakyArgs] }

// FlakyArgs is the payload of Flaky.
type FlakyArgs struct {
	Number  int64  `json:"number"`
	Account string `json:"account"`
	Note    string `json:"note"`
}
