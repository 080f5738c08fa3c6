package admin

import (
	"context"
	"errors"
	"fmt"

	"github.com/pawlgo/pawl/internal/store"
)

// Versions is what is stored by payload version.
type Versions struct {
	Versions []StoredVersion `json:"versions"`
	// Whole says that everything was counted; otherwise it was the first 20,000
	// jobs of each place where they wait, and as many dead letters.
	Whole bool `json:"whole"`
	// Unread says that the role may not read payloads, so that none was checked.
	Unread bool `json:"unread,omitempty"`
}

// StoredVersion is what is stored of one payload version.
type StoredVersion struct {
	Kind       string     `json:"kind"`
	Version    int        `json:"version"`
	Capability Capability `json:"capability"`
	Unfinished int        `json:"unfinished"` // jobs that wait or run
	Dead       int        `json:"dead"`
	// Current says that it is the newest that a worker has registered.
	Current bool `json:"current"`
	// Workers is how many live workers know it. What no worker knows is stranded.
	Workers int `json:"workers"`
	// Checked is how many payloads were held against the registered shape, and
	// Misfits how many of them do not fit it.
	Checked  int      `json:"checked"`
	Misfits  int      `json:"misfits"`
	Examples []Misfit `json:"examples,omitempty"`
}

// Misfit is a payload that does not fit.
type Misfit struct {
	ID   string `json:"id"`
	Text string `json:"text"`
}

// Err says what is wrong with the versions, nil for nothing: payloads that no live
// worker knows, or that do not fit their shape.
func (v *Versions) Err() error {
	var errs []error
	for _, s := range v.Versions {
		if s.Unfinished > 0 && s.Workers == 0 {
			errs = append(errs, fmt.Errorf("%d unfinished jobs of %s version %d: no live worker knows it", s.Unfinished, s.Kind, s.Version))
		}
		if s.Misfits > 0 {
			errs = append(errs, fmt.Errorf("%d payloads of %s version %d do not fit its shape, such as %s: %s", s.Misfits, s.Kind, s.Version, s.Examples[0].ID, s.Examples[0].Text))
		}
	}
	return errors.Join(errs...)
}

// Bounds of [Client.Verify].
const (
	verifyRows  = 20_000
	verifyCheck = 200
)

// Verify says which payload versions are stored, who can decode them, and whether
// those of the current versions fit the shape that workers have registered. It
// knows no decoders or upgraders: to run those over what is stored, call
// [pawlrt.Verify] in a binary that has them.
//
// [pawlrt.Verify]: https://pkg.go.dev/github.com/pawlgo/pawl/runtime#Verify
func (c *Client) Verify(ctx context.Context) (*Versions, error) {
	v := &Versions{Versions: []StoredVersion{}}
	err := c.read(ctx, "verify payloads", func(r *store.Reading) error {
		rows, whole, unread, err := r.Versions(ctx, verifyRows, verifyCheck)
		v.Whole, v.Unread = whole, unread
		for _, x := range rows {
			s := StoredVersion{
				Kind: x.Kind, Version: x.Version, Capability: Capability(x.Capability), Unfinished: x.Unfinished, Dead: x.Dead,
				Current: x.Current, Workers: x.Workers, Checked: x.Checked, Misfits: x.Misfits,
			}
			for _, e := range x.Examples {
				s.Examples = append(s.Examples, Misfit{ID: e.ID.String(), Text: e.Misfit})
			}
			v.Versions = append(v.Versions, s)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return v, nil
}
