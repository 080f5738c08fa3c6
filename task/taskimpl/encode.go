package taskimpl

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/pawlgo/pawl/task"
)

// encode turns args, a pointer, into the JSON that is stored, or says why the database
// could not take it. PostgreSQL's jsonb refuses U+0000, lone surrogates and
// numbers beyond its numeric type, and encoding/json replaces invalid UTF-8 in
// silence; found out here, each is an error that leaves the caller's
// transaction alone.
func encode(args any) (string, error) {
	raw, err := json.Marshal(args)
	if err != nil {
		return "", unencodable(err)
	}
	if len(raw) > maxArgs {
		return "", fmt.Errorf("%w: %d bytes, of at most %d; store the bulk elsewhere and enqueue its name", task.ErrTooLarge, len(raw), maxArgs)
	}
	if !utf8.Valid(raw) { // encoding/json does not look at what a marshaler wrote
		return "", errors.New("what a marshaler or a json.RawMessage wrote is not valid UTF-8; carry bytes as []byte")
	}
	if tooDeep(raw) {
		return "", fmt.Errorf("it nests deeper than %d levels, which encoding/json does not decode", maxDepth)
	}
	suspect, err := scanText(raw)
	if err != nil {
		return "", err
	}
	grown, err := scanNumbers(raw)
	if err != nil {
		return "", err
	}
	if len(raw)+grown > maxArgs {
		return "", fmt.Errorf("%w: %d bytes with their exponents written out, of at most %d", task.ErrTooLarge, len(raw)+grown, maxArgs)
	}
	if suspect {
		if path, bad := invalidText(reflect.ValueOf(args).Elem(), "args"); bad {
			return "", fmt.Errorf("%s is not valid UTF-8; carry bytes as []byte", path)
		}
	}
	return string(raw), nil
}

// unencodable is an error of encoding/json that has no value of the payload: the
// caller is likely to log it. What a marshaler of the application's says is its own.
func unencodable(err error) error {
	for _, known := range []any{new(*json.MarshalerError), new(*json.UnsupportedTypeError), new(*json.UnsupportedValueError)} {
		if errors.As(err, known) {
			return err
		}
	}
	return errors.New("encoding/json refuses it: a json.Number is not a number, say")
}

// scanText looks through encoded JSON for text that jsonb refuses. It reports as
// suspect an escaped U+FFFD, which is how encoding/json writes what was not
// UTF-8.
func scanText(raw []byte) (suspect bool, err error) {
	if bytes.IndexByte(raw, '\\') < 0 {
		return false, nil
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
	return suspect, nil
}

var errLoneSurrogate = errors.New("a string contains half of a surrogate pair, which PostgreSQL cannot store")

// The limits of PostgreSQL's numeric, in decimal digits.
const (
	maxWhole    = 131_072
	maxDecimals = 16_383
)

// maxDepth bounds how deep a payload nests. It is what encoding/json decodes;
// PostgreSQL, which parses by recursion, gives up a little later.
const maxDepth = 10_000

// tooDeep says whether encoded JSON nests deeper than that.
func tooDeep(raw []byte) bool {
	depth, inString := 0, false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '{' || c == '[':
			if depth++; depth > maxDepth {
				return true
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return false
}

// scanNumbers refuses numbers that jsonb's numeric cannot hold. Only a
// json.Number, a RawMessage or a marshaler of the user's can write one: a
// float64 ends at 1e308. It returns by how much the numbers grow when they are
// read back, since jsonb writes exponents out.
func scanNumbers(raw []byte) (grown int, err error) {
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case c == '"':
			for i++; raw[i] != '"'; i++ {
				if raw[i] == '\\' {
					i++
				}
			}
		case c == '-' || c >= '0' && c <= '9':
			n := numberLength(raw[i:])
			whole, decimals, err := digits(string(raw[i : i+n]))
			if err != nil {
				return 0, err
			}
			grown += max(max(whole, 0)+max(decimals, 0)-n, 0)
			i += n - 1
		}
	}
	return grown, nil
}

func numberLength(raw []byte) int {
	n := bytes.IndexFunc(raw, func(r rune) bool { return !strings.ContainsRune("+-.0123456789eE", r) })
	if n < 0 {
		return len(raw)
	}
	return n
}

// digits returns how many digits a JSON number has before and after the decimal
// point when it is written without an exponent.
func digits(number string) (whole, decimals int, err error) {
	mantissa, power := number, 0
	if at := strings.IndexAny(number, "eE"); at >= 0 {
		mantissa = number[:at]
		if power, err = strconv.Atoi(number[at+1:]); err != nil || power > maxWhole || power < -maxWhole {
			return 0, 0, errors.New("a number has an exponent that PostgreSQL cannot store")
		}
	}
	integer, fraction, _ := strings.Cut(strings.TrimPrefix(mantissa, "-"), ".")
	whole, decimals = len(strings.TrimPrefix(integer, "0"))+power, len(fraction)-power
	if whole > maxWhole || decimals > maxDecimals {
		return 0, 0, fmt.Errorf("a number has %d digits before the decimal point and %d after it, and PostgreSQL stores at most %d and %d",
			max(whole, 0), max(decimals, 0), maxWhole, maxDecimals)
	}
	return whole, decimals, nil
}

// invalidText returns the path of the first string in v that is not UTF-8. A
// value that marshals itself as JSON is passed over: what it wrote is its own
// affair.
func invalidText(v reflect.Value, path string) (string, bool) {
	if !v.IsValid() {
		return "", false
	}
	if _, ok := as[json.Marshaler](v); ok {
		return "", false
	}
	if m, ok := as[encoding.TextMarshaler](v); ok {
		text, err := m.MarshalText()
		return path, err == nil && !utf8.Valid(text)
	}
	switch v.Kind() {
	case reflect.String:
		return path, !utf8.ValidString(v.String())
	case reflect.Pointer, reflect.Interface:
		return invalidText(v.Elem(), path)
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.Tag.Get("json") == "-" || !f.IsExported() && !f.Anonymous {
				continue // encoding/json passes it over too
			}
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
			if p, bad := invalidText(it.Value(), path+"[…]"); bad {
				return p, true
			}
		}
	}
	return "", false
}

// as returns v, or its address, as a marshaler of some kind, the way that
// encoding/json looks for one. A nil pointer is none: it is written as null.
func as[M any](v reflect.Value) (M, bool) {
	var none M
	if !v.CanInterface() || v.Kind() == reflect.Pointer && v.IsNil() {
		return none, false
	}
	if m, ok := v.Interface().(M); ok {
		return m, true
	}
	if v.CanAddr() {
		m, ok := v.Addr().Interface().(M)
		return m, ok
	}
	return none, false
}
