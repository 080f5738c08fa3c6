package gen

import (
	"go/types"

	"github.com/pawlgo/pawl/internal/gen/declare"
	"github.com/pawlgo/pawl/internal/gen/diag"
	"github.com/pawlgo/pawl/internal/gen/render"
)

// schedule checks the method that makes payloads of a schedule's ticks: what runs
// by itself has nobody to say what its payload is.
func (u *unit) schedule(t *render.Task, d *declare.Task) {
	if d.Event {
		return // it has none, and a directive that says otherwise is an error
	}
	args := u.checker.TypeName(t.Args)
	switch s := t.Policy.Schedule; {
	case s == nil && d.Scheduled == nil:
	case s == nil:
		u.errorf(diag.Declaration)(d.Scheduled.Pos(), "%s has a method %s and no schedule: add //task:schedule \"CRON\" to its comment, or remove the method",
			t.Name, declare.ScheduledMethod)
	case d.Scheduled == nil:
		if !empty(t.Args) {
			u.errorf(diag.Directive)(s.Pos, "%s has a schedule and a payload with fields: write func (%s) %s(at time.Time) %s, which makes the payload of a tick",
				t.Name, t.Name, declare.ScheduledMethod, args)
		}
	case !makesArgs(d.Scheduled, t.Args):
		u.errorf(diag.Declaration)(d.Scheduled.Pos(), "%s.%s has another signature than func (%s) %s(at time.Time) %s",
			t.Name, declare.ScheduledMethod, t.Name, declare.ScheduledMethod, args)
	default:
		t.Scheduled = true
	}
}

// empty reports whether a payload says nothing.
func empty(args types.Type) bool {
	s, ok := args.Underlying().(*types.Struct)
	return ok && s.NumFields() == 0
}

// makesArgs reports whether a method takes the time of a tick and returns args.
func makesArgs(method *types.Func, args types.Type) bool {
	s := method.Signature()
	_, pointer := types.Unalias(s.Recv().Type()).(*types.Pointer)
	return !pointer && !s.Variadic() && s.Params().Len() == 1 && isTime(s.Params().At(0).Type()) &&
		s.Results().Len() == 1 && types.Identical(s.Results().At(0).Type(), args)
}

func isTime(t types.Type) bool {
	named, ok := types.Unalias(t).(*types.Named)
	if !ok {
		return false
	}
	obj := named.Obj()
	return obj.Name() == "Time" && obj.Pkg() != nil && obj.Pkg().Path() == "time"
}
