// Package evolved declares tasks whose payloads have changed, with the upgraders
// that such changes ask for. Its generated file is made from plans of the test.
package evolved

import (
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/pawlgo/pawl/internal/gen/golden/shapes/library"
	"github.com/pawlgo/pawl/internal/gen/render/golden/evolved/opt"
	"github.com/pawlgo/pawl/task"
)

// Deliver has steps of both kinds: version 2 decodes as version 3, and 4 as 5.
//
//task:queue evolved
type Deliver struct{ task.Task[DeliverArgs] }

// DeliverArgs is the payload of [Deliver].
type DeliverArgs struct {
	Names []string `json:"names"`
	Count int64    `json:"count"`
	Level Level    `json:"level,omitempty"`
	Tries *Tries   `json:"tries,omitempty"`
}

// Level is a named scalar.
type Level string

// Tries is nested.
type Tries struct {
	Max int `json:"max"`
}

// ErrNameless is the error of a payload that cannot be upgraded.
var ErrNameless = errors.New("without a name")

// UpgradeDeliverV1 is the step from version 1.
func UpgradeDeliverV1(old DeliverArgsV1) (DeliverArgsV2, error) {
	first, last, ok := strings.Cut(old.Name, " ")
	switch {
	case old.Retry != nil && old.Retry.Max < 0:
		panic("negative")
	case !ok:
		return DeliverArgsV2{}, ErrNameless
	}
	return DeliverArgsV2{First: first, Last: last, Spare: "nobody reads it"}, nil
}

// UpgradeDeliverV3 is the step from version 3.
func UpgradeDeliverV3(old DeliverArgsV3) (DeliverArgsV4, error) {
	return DeliverArgsV4{Names: []string{old.First, old.Last}, Count: 2}, nil
}

// Shrink has lost a field twice.
//
//task:queue evolved
type Shrink struct{ task.Task[ShrinkArgs] }

// ShrinkArgs is the payload of [Shrink].
type ShrinkArgs struct {
	A int `json:"a"`
}

// Retired has the versions 2 and 5, and was called by other names.
//
//task:queue evolved
type Retired struct{ task.Task[opt.Of[RetiredArgs]] }

// RetiredArgs is in the payload of [Retired].
type RetiredArgs struct {
	Every time.Duration `json:"every"`
}

// UpgradeRetiredV2 is the step from version 2.
func UpgradeRetiredV2(old RetiredArgsV2) (RetiredArgsV5, error) {
	return opt.Some(RetiredArgs{Every: time.Duration(old.Seconds) * time.Second}), nil
}

// List has a payload that is no struct.
//
//task:queue evolved
type List struct{ task.Task[Items] }

// Items is the payload of [List].
type Items []library.Pair[Level, []Tries]

// UpgradeListV1 is the step from version 1.
func UpgradeListV1(old ListArgsV1) (ListArgsV2, error) {
	var items Items
	for _, r := range old {
		items = append(items, library.Pair[Level, []Tries]{Key: "old", Value: []Tries{Tries(r)}})
	}
	return items, nil
}

// Text was a scalar.
//
//task:queue evolved
type Text struct{ task.Task[Batch[string]] }

// Batch is generic.
type Batch[T any] struct {
	Items []T `json:"items"`
}

// UpgradeTextV1 is the step from version 1.
func UpgradeTextV1(old TextArgsV1) (TextArgsV2, error) {
	return Batch[string]{Items: strings.Fields(string(old))}, nil
}

// Code encoded itself.
//
//task:queue evolved
type Code struct{ task.Task[Batch[int]] }

// UpgradeCodeV1 is the step from version 1.
func UpgradeCodeV1(old CodeArgsV1) (CodeArgsV2, error) {
	return Batch[int]{Items: []int{int(old[0]), int(old[1])}}, nil
}

// Archive had a payload of every shape.
//
//task:queue evolved
type Archive struct{ task.Task[Batch[uuid.UUID]] }

// UpgradeArchiveV1 is the step from version 1.
func UpgradeArchiveV1(old ArchiveArgsV1) (ArchiveArgsV2, error) {
	return Batch[uuid.UUID]{Items: []uuid.UUID{old.ID}}, nil
}

// Lost had fields of types that are gone, that do not encode themselves any
// longer, and that only their own package can name.
//
//task:queue evolved
type Lost struct{ task.Task[LostArgs] }

// LostArgs is the payload of [Lost].
type LostArgs struct {
	Sizes map[string]int `json:"sizes"`
}

// UpgradeLostV1 is the step from version 1.
func UpgradeLostV1(old LostArgsV1) (LostArgsV2, error) {
	sizes := map[string]int{}
	for name, raw := range map[string]json.RawMessage{
		"gone": old.Gone, "plain": old.Plain, "hidden": old.Hidden, "internal": old.Internal, "literal": old.Literal,
	} {
		sizes[name] = len(raw)
	}
	sizes["key"] = len(old.ByKey["k"])
	return LostArgsV2{sizes}, nil
}
