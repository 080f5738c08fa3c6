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

// quiet keeps values of a payload that has something to hide out of what is said
// about a failure to decode it: that is stored and logged.
func quiet[A any](decode decoder[A], redact string) decoder[A] {
	if redact == "" {
		return decode
	}
	return func(version int, raw []byte) (A, error) {
		args, err := decode.safely(version, raw)
		return args, withoutValues(err)
	}
}

func withoutValues(err error) error {
	if err == nil {
		return nil
	}
	if unknown, ok := errors.AsType[*unknownVersion](err); ok {
		return unknown
	}
	if misfit, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		kind, _, _ := strings.Cut(misfit.Value, " ") // after that it has the number
		return fmt.Errorf("a JSON %s does not fit %s, which is of the type %s", kind, cmp.Or(misfit.Field, "the payload"), misfit.Type)
	}
	inner := err
	for next := errors.Unwrap(inner); next != nil; next = errors.Unwrap(inner) {
		inner = next
	}
	return fmt.Errorf("the text of the error, a %T, is left out: the payload has fields that are tagged task:\"redact\"", inner)
}
