package gen

import (
	"context"
	"errors"
	"fmt"
	"go/token"
	"go/types"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/pawlgo/pawl/internal/gen/diag"
	"github.com/pawlgo/pawl/internal/gen/directive"
	"github.com/pawlgo/pawl/internal/gen/evolve"
	"github.com/pawlgo/pawl/internal/gen/lock"
	"github.com/pawlgo/pawl/internal/gen/reference"
	"github.com/pawlgo/pawl/internal/gen/render"
	"github.com/pawlgo/pawl/internal/gen/shape"
)

// evolve decides the versions of the package's payloads. It waits until all else
// is right: a task that is left out would look like one that was removed. The
// error is for trouble without a place in the source.
func (u *unit) evolve(ctx context.Context, finder *reference.Finder, modules func(string) string, opts Options) error {
	path := filepath.Join(u.pkg.Dir, lock.Name)
	disk, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("read the lock: %w", err)
	}
	if !u.diags.Empty() || len(u.unknown) > 0 || len(u.tasks) == 0 && disk == nil && opts.Retire == nil {
		return nil
	}
	in := evolve.Input{Retired: lock.Tombstones(disk)}
	if disk == nil {
		// What the command retire has set is nowhere else; where it is committed, a
		// lock that was deleted comes back whole. Without a commit nothing is lost.
		head := &reference.Finder{Against: "HEAD"}
		if committed, _, err := head.File(ctx, u.pkg.Dir, lock.Name); err == nil {
			in.Retired = lock.Tombstones(committed)
		}
	}
	in.Reference, err = u.reference(ctx, finder, path, disk, opts)
	if err != nil || in.Reference == nil {
		return err
	}
	if in.Tasks = u.shapes(modules); !u.diags.Empty() {
		return nil
	}
	if opts.Retire != nil {
		if in, err = evolve.Retire(in, opts.Retire.Kind, opts.Retire.Number); err != nil {
			return err
		}
	}
	decided := evolve.Decide(in)
	for _, p := range decided.Problems {
		u.problem(u.diags, p)
	}
	for _, p := range decided.Notes {
		u.problem(u.notes, p)
	}
	for i, plan := range decided.Plans {
		u.tasks[i].Plan, u.tasks[i].Aliases = plan, aliases(plan)
	}
	u.lock = decided.Lock.Bytes()
	return nil
}

func aliases(plan *evolve.Plan) []render.Alias {
	var all []render.Alias
	for _, a := range plan.Aliases {
		alias := render.Alias{Kind: a.Kind}
		for _, v := range a.Versions {
			alias.Versions = append(alias.Versions, render.AliasVersion{Number: v.Number, Base: v.Base, As: v.Number})
		}
		all = append(all, alias)
	}
	return all
}

// reference returns the lock that is frozen. It is nil where the lock on disk
// would have to be it and cannot be read, which is an error in that file.
func (u *unit) reference(ctx context.Context, finder *reference.Finder, path string, disk []byte, opts Options) (*lock.Lock, error) {
	at := token.Position{Filename: path, Line: 1}
	onDisk, diskErr := lock.Parse(disk)
	var broken *lock.Error
	if errors.As(diskErr, &broken) {
		at.Line = max(broken.Line, 1)
	}
	content, commit, err := finder.File(ctx, u.pkg.Dir, lock.Name)
	unavailable, isUnavailable := errors.AsType[*reference.UnavailableError](err)
	switch {
	case isUnavailable && !opts.Strict && !unavailable.Named:
		if diskErr != nil && lock.Conflicted(disk) {
			u.diags.As(diag.Lock).Addf(at, "the lock has conflict markers, and there is no history to mend it from (%v): take the side of the main branch and run taskgen again", err)
		} else if diskErr != nil {
			u.diags.As(diag.Lock).Addf(at, "the lock cannot be read: %s\n%s", broken.Msg, unmerged)
		}
		if diskErr != nil {
			return nil, nil
		}
		return onDisk, nil
	case err != nil:
		return nil, fmt.Errorf("find what is frozen for %s: %w", u.pkg.PkgPath, err)
	case diskErr != nil && lock.Conflicted(disk):
		u.notes.As(diag.Lock).Addf(at, "the lock had conflict markers: what stands at %.12s was kept, and the versions of this branch were numbered anew", commit)
	case diskErr != nil && content == nil:
		u.diags.As(diag.Lock).Addf(at, "the lock cannot be read: %s\n%s", broken.Msg, unmerged)
		return nil, nil
	case diskErr != nil:
		u.diags.As(diag.Lock).Addf(at, "the lock cannot be read: %s\nrestore it from git, or remove it: taskgen writes it again from what is merged", broken.Msg)
		return nil, nil
	}
	frozen, err := lock.Parse(content)
	if err != nil {
		return nil, fmt.Errorf("%s at %.12s cannot be read: %w: name a better commit with -against", path, commit, err)
	}
	return frozen, u.moved(ctx, finder, frozen)
}

// unmerged is the remedy for a lock that no commit can replace.
const unmerged = "it alone knows the versions of stored jobs: restore it from version control or a backup, and delete it only if no job was ever stored"

// moved adds to what is frozen the kinds that came from another package: those
// that a lock elsewhere has at the reference and no more on disk, because its
// directory is called otherwise now, or because the task is no longer declared
// there. A kind that is still declared elsewhere is another one: packages that
// are not run by one worker may have kinds of the same name.
func (u *unit) moved(ctx context.Context, finder *reference.Finder, frozen *lock.Lock) error {
	names := map[string]bool{} // that are new here
	for _, t := range u.tasks {
		names[t.Policy.Kind] = true
		for _, a := range t.Policy.Aliases {
			names[a.Kind] = true
		}
	}
	maps.DeleteFunc(names, func(name string, _ bool) bool { return isLive(frozen, name) })
	if len(names) == 0 {
		return nil
	}
	others, err := finder.Others(ctx, u.pkg.Dir, lock.Name)
	if err != nil {
		return fmt.Errorf("look for where the kinds of %s were: %w", u.pkg.PkgPath, err)
	}
	for _, path := range slices.Sorted(maps.Keys(others)) {
		was, err := lock.Parse(others[path])
		if err != nil {
			continue // another package's trouble, which is told where it is generated
		}
		disk, err := os.ReadFile(path)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("read the lock: %w", err)
		}
		is, err := lock.Parse(disk)
		if err != nil {
			continue
		}
		for name, k := range was.Kinds {
			if (names[name] || names[k.AliasOf]) && isLive(was, name) && !isLive(is, name) {
				frozen.Adopt(was, name)
			}
		}
	}
	return nil
}

// isLive reports whether l has a live version of a kind.
func isLive(l *lock.Lock, kind string) bool {
	return l.Kinds[kind] != nil && len(l.Kinds[kind].Versions) > 0
}

// shapes returns what decisions need to know of the tasks.
func (u *unit) shapes(modules func(string) string) []evolve.Task {
	var all []evolve.Task
	for i, t := range u.tasks {
		s, err := shape.FromType(t.Args, u.pkg.Types, modules)
		if err != nil {
			u.errorf(diag.Payload)(u.decls[i].ArgsPos, "%v", err)
			continue
		}
		task := evolve.Task{
			Name: t.Name, Kind: t.Policy.Kind, Aggregate: t.Policy.Aggregate, Shape: s,
			Declares: func(name string) bool { return u.pkg.Types.Scope().Lookup(name) != nil },
			Field:    func(path string) any { return fieldAt(t.Args, path) },
		}
		for _, a := range t.Policy.Aliases {
			task.Aliases = append(task.Aliases, a.Kind)
		}
		for _, a := range t.Policy.Accepts {
			task.Accepts = append(task.Accepts, lock.Acceptance{Rule: a.Rule, Path: a.Path, Reason: a.Reason})
		}
		if len(t.Policy.Fields) > 0 {
			task.Identity = &lock.Identity{}
			for _, f := range t.Policy.Fields {
				task.Identity.Fields = append(task.Identity.Fields, u.identityField(t, s, f))
			}
			if t.Policy.Organization != nil {
				task.Identity.Organization = new(u.identityField(t, s, *t.Policy.Organization))
			}
		}
		if len(t.Order) > 0 {
			task.Order = &lock.Identity{}
			for _, member := range t.Order {
				task.Order.Fields = append(task.Order.Fields, lock.IdentityField{Field: member, Wire: s.Member(member)})
			}
		}
		all = append(all, task)
	}
	return all
}

// identityField names a field by what it is called on the wire, where it is
// stored by itself.
func (u *unit) identityField(t *render.Task, s *shape.Shape, f directive.Field) lock.IdentityField {
	field := lock.IdentityField{Field: f.Name}
	for _, stored := range s.Structs[s.Root.Ref].Fields {
		if stored.Go == f.Name {
			field.Field = stored.JSON
		}
	}
	typ, _ := u.checker.Field(t.Args, f.Name)
	wire, err := shape.FromType(typ, u.pkg.Types, nil)
	if err != nil {
		u.errorf(diag.Payload)(f.Pos, "%v", err)
		return field
	}
	if b, ok := typ.Underlying().(*types.Basic); ok && b.Info()&types.IsInteger != 0 && wire.Root.Kind != shape.Opaque {
		wire.Root.Kind = shape.Int64 // equal numbers make equal keys, whatever holds them
	}
	field.Wire = wire.Canonical()
	return field
}

// problem adds what was decided to a list, at its place in the source.
func (u *unit) problem(list *diag.List, p evolve.Problem) {
	t := u.tasks[p.Task]
	pos := t.NamePos
	switch p.Place {
	case evolve.AtKind:
		pos = t.Policy.KindPos
	case evolve.AtAlias:
		pos = t.Policy.Aliases[p.Index].Pos
	case evolve.AtAcceptRule:
		pos = t.Policy.Accepts[p.Index].RulePos
	case evolve.AtAcceptPath:
		pos = t.Policy.Accepts[p.Index].PathPos
	case evolve.AtIdentity:
		if len(t.Policy.Fields) > 0 {
			pos = t.Policy.Fields[0].Pos
		}
	case evolve.AtOrder:
		if len(t.Policy.Order) > 0 {
			pos = t.Policy.Order[0].Pos
		}
	case evolve.AtPayload:
		pos = u.locate(t.Args, p.Path, t.NamePos)
	}
	code := diag.Lock
	if p.Code != "" {
		code = diag.Code(p.Code)
	}
	list.As(code).Addf(u.pkgs.Fset.Position(pos), "%s", p.Message)
}

// locate returns where the field stands that a path of the rules leads to, or
// the innermost type on the way there that is in the user's source, or else the
// position that is given.
func (u *unit) locate(t types.Type, path string, pos token.Pos) token.Pos {
	own := func(p token.Pos) {
		if p.IsValid() && u.checker.Source(p) {
			pos = p
		}
	}
	if named, ok := types.Unalias(t).(*types.Named); ok {
		own(named.Obj().Pos())
	}
	for rest := path; rest != "" && rest != "."; {
		var s step
		s, rest = cutStep(rest)
		field, next := s.in(t)
		if next == nil {
			break
		}
		if t = next; field != nil {
			own(field.Pos())
		}
	}
	return pos
}
