package taskimpl

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"unicode/utf8"

	"github.com/pawlgo/pawl/task"
)

// encode turns args into the JSON that is stored, or says why the database
// could not take it. PostgreSQL's jsonb refuses U+0000, lone surrogates and
// numbers beyond its numeric type, and encoding/json replaces invalid UTF-8 in
// silence; found out here, each is an error that leaves the caller's
// transaction alone.
func encode[A any](args *A) (string, error) {
	raw, err := json.Marshal(args)
	if err != nil {
		return "", err
	}
	if len(raw) > maxArgs {
		return "", fmt.Errorf("%w: %d bytes, of at most %d; store the bulk elsewhere and enqueue its name", task.ErrTooLarge, len(raw), maxArgs)
	}
	suspect, err := scan(raw)
	if err != nil {
		return "", err
	}
	if suspect {
		if path, bad := invalidText(reflect.ValueOf(args).Elem(), "args"); bad {
			return "", fmt.Errorf("%s is not valid UTF-8; carry bytes as []byte", path)
		}
	}
	return string(raw), nil
}

// scan looks through encoded JSON for what jsonb refuses. It reports as suspect
// an escaped U+FFFD, which is how encoding/json writes what was not UTF-8.
func scan(raw []byte) (suspect bool, err error) {
	if bytes.IndexByte(raw, '\\') < 0 {
		return false, scanNumbers(raw)
	}
	high := false // the last escape was a high surrogate that wants its low half
	for i := 0; i < len(raw); i++ {
		if raw[i] != '\\' {
			if high {
				return false, errLoneSurrogate
			}
			continue
		}
		i++
		if raw[i] != 'u' {
			if high {
				return false, errLoneSurrogate
			}
			continue
		}
		code, _ := strconv.ParseUint(string(raw[i+1:i+5]), 16, 32)
		i += 4
		low := code >= 0xDC00 && code <= 0xDFFF
		if low != high {
			return false, errLoneSurrogate
		}
		high = code >= 0xD800 && code <= 0xDBFF
		switch code {
		case 0:
			return false, errors.New("a string contains U+0000, which PostgreSQL cannot store; carry bytes as []byte")
		case utf8.RuneError:
			suspect = true
		}
	}
	return suspect, scanNumbers(raw)
}

var errLoneSurrogate = errors.New("a string contains half of a surrogate pair, which PostgreSQL cannot store")

// scanNumbers refuses numbers with an exponent that jsonb's numeric cannot
// hold. Only a json.Number, a RawMessage or a marshaler of the user's can write
// one: a float64 ends at 1e308.
func scanNumbers(raw []byte) error {
	inString := false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == 'e' || c == 'E':
			j := i + 1
			for j < len(raw) && (raw[j] == '+' || raw[j] == '-' || raw[j] >= '0' && raw[j] <= '9') {
				j++
			}
			if j == i+1 { // the e of true, false
				continue
			}
			if n, err := strconv.Atoi(string(raw[i+1 : j])); err != nil || n > 10_000 || n < -10_000 {
				return fmt.Errorf("a number has the exponent %s, which PostgreSQL cannot store", raw[i+1:j])
			}
			i = j - 1
		}
	}
	return nil
}

// invalidText returns the path of the first string in v that is not UTF-8. A
// value that marshals itself is passed over: what it wrote is its own affair.
func invalidText(v reflect.Value, path string) (string, bool) {
	if !v.IsValid() {
		return "", false
	}
	if v.CanInterface() {
		switch v.Interface().(type) {
		case json.Marshaler:
			return "", false
		}
	}
	switch v.Kind() {
	case reflect.String:
		return path, !utf8.ValidString(v.String())
	case reflect.Pointer, reflect.Interface:
		return invalidText(v.Elem(), path)
	case reflect.Struct:
		for i := range v.NumField() {
			if p, bad := invalidText(v.Field(i), path+"."+v.Type().Field(i).Name); bad {
				return p, true
			}
		}
	case reflect.Slice, reflect.Array:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return "", false
		}
		for i := range v.Len() {
			if p, bad := invalidText(v.Index(i), fmt.Sprintf("%s[%d]", path, i)); bad {
				return p, true
			}
		}
	case reflect.Map:
		for it := v.MapRange(); it.Next(); {
			if p, bad := invalidText(it.Key(), path+" (a map key)"); bad {
				return p, true
			}
			if p, bad := invalidText(it.Value(), fmt.Sprintf("%s[%v]", path, it.Key())); bad {
				return p, true
			}
		}
	}
	return "", false
}
