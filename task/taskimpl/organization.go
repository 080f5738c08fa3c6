package taskimpl

import (
	"encoding"
	"fmt"
	"reflect"
)

// Text returns the text of an organization, given by the address of its field.
// The zero value, such as uuid.Nil, is no organization.
func Text(field encoding.TextMarshaler) (string, error) {
	if reflect.ValueOf(field).Elem().IsZero() {
		return "", nil
	}
	text, err := field.MarshalText()
	return string(text), err
}

// Format is [Text] for types that only have a String method.
func Format(field fmt.Stringer) string {
	if reflect.ValueOf(field).Elem().IsZero() {
		return ""
	}
	return field.String()
}
