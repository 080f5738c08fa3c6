package rules

import "slices"

// Note is a row of the reference page that no comparison finds: because there is
// nothing to find, or because the declaration is refused before there is a shape.
type Note struct {
	Change string
	Reason string
}

// Unseen returns the changes of Go code that leave the wire as it is.
func Unseen() []Note { return slices.Clone(unseen) }

// Refused returns what package payload does not let into a payload, since its
// values would be lost or could not be read back.
func Refused() []Note { return slices.Clone(refused) }

var unseen = []Note{
	{"a Go field got another name and kept its JSON name", "the Go name is not stored"},
	{"a type got another name, or was split in two of the same fields", "names of types are not stored"},
	{"fields changed their order", "the order of an object's members means nothing"},
	{"a string became a named string type without methods, or the reverse", "only its kind is stored"},
	{"an int64 became a time.Duration, or the reverse", "a duration is stored as its nanoseconds"},
	{"an embedded struct was replaced by the same fields, or the reverse", "encoding/json stores the fields of an embedded struct as those of the outer one"},
	{"a struct became an instantiated generic one with the same fields", "what is compared is the instantiated struct"},
}

var refused = []Note{
	{"two fields with one JSON name, also through embedding", "both would vanish, or one of them"},
	{"two fields whose JSON names differ only by letter case", "one would be decoded into the other"},
	{"an unexported field without `json:\"-\"`", "it would never be stored"},
	{"`json:\"-,\"`", "it names the field \"-\", which is hardly ever meant"},
	{"an embedded pointer to an unexported struct", "it cannot be decoded"},
	{"an embedded type that encodes itself", "its methods would encode the whole struct and lose the other fields"},
	{"the option string on anything but a number or bool", "it has no effect, or quotes a string twice"},
	{"any", "integers above 9007199254740992 would lose digits"},
	{"an interface with methods", "it cannot be decoded"},
	{"a channel, a function, a complex number, an unsafe.Pointer", "it cannot be encoded"},
	{"a type that contains itself without a struct in between, such as `type Tree []Tree`", "its frozen copy could not be written down"},
}
