// SPDX-License-Identifier: Apache-2.0

package proof

import (
	"fmt"
	"strings"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/proof/internal/model"
)

// compare returns how the real world differs from the model's; "" if it does
// not.
func (p *Play) compare(w model.World) string {
	for _, differ := range []string{p.compareL(w), p.compareM(w), p.compareClients(w)} {
		if differ != "" {
			return differ
		}
	}
	return ""
}

func (p *Play) compareL(w model.World) string {
	value, err := p.world.Mini.Get(p.l)
	exists := err == nil
	switch {
	case exists != (w.L.Kind != ""):
		return fmt.Sprintf("L is %q, the model has %+v", value, w.L)
	case !exists:
		return ""
	}
	if differ := p.compareLeft("L", p.l, w.L.Left, w.L.Kind == "tombstone"); differ != "" {
		return differ
	}
	switch w.L.Kind {
	case "stamp":
		return p.compareStamp(value, w)
	case "tombstone":
		if tomb, _ := p.dialect.EncodeValue(p.dialect.Tombstone()); value != tomb {
			return fmt.Sprintf("L is %q, not the tombstone", value)
		}
		return ""
	}
	return p.compareBearer(value, w)
}

func (p *Play) compareStamp(value string, w model.World) string {
	now := p.world.ServerNow()
	s, err := p.dialect.Decode(value, now)
	if err != nil {
		return fmt.Sprintf("L is %q: %v; the model has %+v", value, err, w.L)
	}
	at := s.Expiry.Sub(now) - p.shift()
	if w.L.Far {
		at -= dialect.Terms{}.StampAhead()
		// What the server's clock has lost is added to the stamp, in whole
		// minutes.
		if lost := at - p.ticks(w.L.At); p.sc.ServerStep < 0 && lost > 0 && lost%time.Minute == 0 {
			at -= lost
		}
	}
	if want := p.ticks(w.L.At); at != want && !(w.L.Worn && at < want) {
		return fmt.Sprintf("L is a stamp %v from now, the model has %v", at, want)
	}
	if p.dialect.Shape == dialect.ShapeUUIDNumber {
		return p.compareBearer(value, w)
	}
	return ""
}

// compareBearer compares the writer of the value.
func (p *Play) compareBearer(value string, w model.World) string {
	if p.dialect.Shape == dialect.ShapeConstant && w.L.Kind == "value" {
		return ""
	}
	bearer := "stranger"
	for _, o := range p.old {
		if o.wrote[p.identity(value)] {
			bearer = o.name
		}
	}
	for _, o := range p.ours {
		if o.token != "" && o.mark == value {
			bearer = o.name
		}
	}
	if bearer != w.L.Who {
		return fmt.Sprintf("L is %q of %s, the model has %+v", value, bearer, w.L)
	}
	return ""
}

func (p *Play) compareM(w model.World) string {
	value, err := p.world.Mini.Get(p.m)
	exists := err == nil
	switch {
	case len(p.ours) == 0:
		return ""
	case exists != (w.M.Kind != ""):
		return fmt.Sprintf("M is %q, the model has %+v", value, w.M)
	case !exists:
		return ""
	}
	if differ := p.compareLeft("M", p.m, w.M.Left, false); differ != "" {
		return differ
	}
	token, _, _ := strings.Cut(value, " ")
	bearer := "stranger"
	for _, o := range p.ours {
		if o.token != "" && token == o.token {
			bearer = o.name
		}
	}
	if bearer != w.M.Who {
		return fmt.Sprintf("M is %q of %s, the model has %+v", value, bearer, w.M)
	}
	return ""
}

// compareLeft compares for how many ticks a key still exists, including the
// present one. The model counts a tombstone's days as no TTL.
func (p *Play) compareLeft(name, key string, want int, days bool) string {
	left := p.world.Mini.TTL(key)
	got := 0
	if left > 0 {
		got = int(left/p.tick) + 1
	}
	if days && want == 0 && left > 14*24*time.Hour {
		return ""
	}
	if got != want {
		return fmt.Sprintf("%s has %v left, %d ticks; the model has %d", name, left, got, want)
	}
	return ""
}

func (p *Play) compareClients(w model.World) string {
	for i, o := range p.old {
		want := w.Old[i].Step
		if want == "rests" {
			want = "idle"
		}
		if got := o.stands(); got != want {
			return fmt.Sprintf("%s is at %q, the model has it at %q", o.name, got, want)
		}
	}
	for i, o := range p.ours {
		want := w.Ours[i]
		got := o.stands()
		// When trust ends, the real client already knows what the model is
		// about to say.
		switch {
		case want.Step == "holds" && !want.Trusted:
			want.Step = "lost"
		case want.Step == "begun": // it has sent nothing yet
			want.Step = "idle"
		}
		if got != want.Step {
			return fmt.Sprintf("%s is at %q, the model has it at %q", o.name, got, want.Step)
		}
	}
	return ""
}
