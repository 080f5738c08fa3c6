package taskimpl

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/pawlgo/pawl/internal/dispatch"
)

func redaction(version int, paths string) dispatch.Redaction {
	return dispatch.Redaction{Version: version, Paths: cmp.Or(paths, "[]")}
}

// redactions are those of the versions of an old name that are what the current
// version is. Of the others nothing is known.
func (a *Alias) redactions(current int, paths string) (all []dispatch.Redaction) {
	for _, v := range a.Versions {
		if v.As == current {
			all = append(all, redaction(v.Version, paths))
		}
	}
	return all
}

// undecodable is the error of a payload that does not decode. What it has of the
// payload's values is stored beside the payload, and stays out of logs and traces.
func undecodable(kind string, version int, err error) error {
	return &dispatch.DecodeError{
		Kind: kind, Version: version, Err: err,
		Quiet: withoutValues(err, "it may have values of the payload, and stands in the database"),
	}
}

// quiet keeps values of a payload that has something to hide out of what is stored
// about a failure to decode it.
func quiet[A any](decode decoder[A], redact string) decoder[A] {
	if redact == "" {
		return decode
	}
	return func(version int, raw []byte) (A, error) {
		args, err := decode.safely(version, raw)
		return args, withoutValues(err, `the payload has fields that are tagged task:"redact"`)
	}
}

// quietError is an error without values of a payload.
type quietError struct{ text string }

func (e *quietError) Error() string { return e.text }

// withoutValues returns what can be said of an error that may have values of a
// payload in its text, for that reason.
func withoutValues(err error, reason string) error {
	if err == nil {
		return nil
	}
	if quiet, ok := errors.AsType[*quietError](err); ok {
		return quiet
	}
	if unknown, ok := errors.AsType[*unknownVersion](err); ok {
		return unknown
	}
	if misfit, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		kind, _, _ := strings.Cut(misfit.Value, " ") // after that it has the number
		return &quietError{fmt.Sprintf("a JSON %s does not fit %s, which is of the type %s", kind, cmp.Or(misfit.Field, "the payload"), misfit.Type)}
	}
	inner := err
	for next := errors.Unwrap(inner); next != nil; next = errors.Unwrap(inner) {
		inner = next
	}
	return &quietError{fmt.Sprintf("the text of the error, a %T, is left out: %s", inner, reason)}
}
