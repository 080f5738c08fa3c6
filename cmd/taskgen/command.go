package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/pawlgo/pawl/internal/gen"
	"github.com/pawlgo/pawl/internal/gen/diag"
)

// command is one run of taskgen.
type command struct {
	dir            string
	args           []string
	options        gen.Options
	json           bool
	stdout, stderr io.Writer
	found          bool // something that is wrong in the packages
}

// packages returns the patterns that are left in the arguments.
func packages(args []string) []string {
	if len(args) == 0 {
		return []string{"."}
	}
	return args
}

func (c *command) generate(ctx context.Context) error {
	result, err := gen.Run(ctx, c.dir, packages(c.args), c.options)
	return errors.Join(err, c.report(result, false))
}

func (c *command) retire(ctx context.Context) error {
	if len(c.args) < 2 {
		return errors.New("name a kind and a version: taskgen retire KIND VERSION [package]")
	}
	number, err := strconv.Atoi(c.args[1])
	if err != nil || number < 1 {
		return fmt.Errorf("%q is no version: give a whole number from 1", c.args[1])
	}
	c.options.Retire = &gen.Retirement{Kind: c.args[0], Number: number}
	result, err := gen.Run(ctx, c.dir, packages(c.args[2:]), c.options)
	return errors.Join(err, c.report(result, false))
}

func (c *command) check(ctx context.Context) error {
	result, differences, err := gen.Check(ctx, c.dir, packages(c.args), c.options)
	if err := errors.Join(err, c.report(result, true)); err != nil {
		return err
	}
	for _, d := range differences {
		c.found = true
		if c.json {
			err = diag.WriteJSON(c.stdout, []diag.Diagnostic{d.Diagnostic})
		} else {
			_, stdoutErr := io.WriteString(c.stdout, d.Diff)
			err = errors.Join(diag.WriteText(c.stderr, []diag.Diagnostic{d.Diagnostic}), stdoutErr)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// report writes the errors, or without any the notes: all of them, or those that
// are not about a change of a payload, which the check is for.
func (c *command) report(result *gen.Result, all bool) error {
	c.found = len(result.Errors) > 0
	told := result.Errors
	if !c.found {
		for _, n := range result.Notes {
			if all || n.Code == diag.Lock || n.Code == diag.Directive {
				n.Note = true
				told = append(told, n)
			}
		}
	}
	if c.json {
		return diag.WriteJSON(c.stdout, told)
	}
	return write(c.stderr, told)
}
