// Package ledger declares the tasks of the runnable examples of order and
// transactions.
package ledger

import "github.com/pawlgo/pawl/task"

//go:generate go tool taskgen

// PostPayment books one payment. The payments of an account are booked one at a
// time, in the order in which they were enqueued, and each exactly once.
//
//task:queue ledger
//task:retry attempts=5 base=100ms max=10m
//task:order fields=Account
//task:transactional isolation=repeatable_read
type PostPayment struct{ task.Task[PostPaymentArgs] }

// PostPaymentArgs is the payload of PostPayment.
type PostPaymentArgs struct {
	Account string `json:"account"`
	Cents   int64  `json:"cents"`
}

// SendStatement mails the statement of an account.
//
//task:queue statements
type SendStatement struct{ task.Task[SendStatementArgs] }

// SendStatementArgs is the payload of SendStatement.
type SendStatementArgs struct {
	Account string `json:"account"`
}
