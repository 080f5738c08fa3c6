// Package demo declares the tasks of the runnable examples in the documentation
// of task and runtime.
package demo

import "github.com/pawlgo/pawl/task"

//go:generate go tool taskgen

// SendReceipt mails the receipt of one order.
//
//task:queue mail
//task:retry attempts=5 base=100ms max=10m
//task:idempotency fields=OrderID keep=72h
type SendReceipt struct{ task.Task[SendReceiptArgs] }

// SendReceiptArgs is the payload of SendReceipt.
type SendReceiptArgs struct {
	OrderID int64  `json:"order_id"`
	To      string `json:"to"`
}
