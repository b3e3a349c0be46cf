package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/clocks"
	"github.com/getsetlock/getsetlock/internal/look"
	"github.com/getsetlock/getsetlock/internal/wire"
	"github.com/getsetlock/getsetlock/migrate"
	"github.com/getsetlock/getsetlock/migrate/internal/record"
)

// gone is the roster's field of members that are gone for long, as it was read.
type gone struct {
	record.Gone
	bytes string // empty if there is none
	err   error  // it cannot be read
}

// unmoved is a heartbeat that lies in the future, and since when it is known.
type unmoved struct {
	bytes string
	since clocks.Moment
}

// callRoll reads the record again and then the roster with the time, so that no
// heartbeat lies ahead of the time, and nothing is read between them that takes
// longer where there are more keys. It returns false if another step was taken
// since the record was read before.
func (d *desk) callRoll(ctx context.Context, f *facts) (same bool, err error) {
	again, err := readStored(d.mux.Do(ctx, "GET", record.Key(d.opts.Namespace)))
	if err != nil {
		return false, err
	}
	if !again.sameStep(f.record) {
		return false, nil
	}
	f.record = again
	f.reading.Boot, f.reading.Up = d.clock.Boot()
	replies := d.mux.Batch(ctx, []wire.Command{wire.Cmd("HGETALL", record.RosterKey(d.opts.Namespace)), wire.Cmd("TIME"), wire.Cmd("INFO", "server")})
	// The roster is that of the server that was asked before and is asked after it, or another one was promoted.
	server, err := infoOf(replies[2])
	if err != nil {
		return false, err
	}
	if run := server.runID; f.server.runID != "" && run != f.server.runID {
		return false, nil
	}
	fields, err := redis.StringMap(replies[0].Value, replies[0].Err)
	if err != nil {
		return false, err
	}
	if f.now, err = timeOf(replies[1].Value, replies[1].Err); err != nil {
		return false, err
	}
	f.reading.Server, f.reading.Run = f.now.Sub(time.Unix(0, 0)), f.server.runID
	f.enroll(fields)
	f.sighting = f.sighting.since(f.record.Evidence, f.now)
	d.watchAhead(f)
	f.shorter, err = d.shorterOf(ctx, f)
	return true, err
}

// sameStep reports that no step was taken between two readings of a record. That
// a member raised what the record keeps of all is none.
func (s stored) sameStep(before stored) bool {
	if s.err != nil || before.err != nil || !s.exists() || !before.exists() {
		return s.bytes == before.bytes
	}
	a, b := s.Record, before.Record
	a.TTL, a.Every, b.TTL, b.Every = 0, 0, 0, 0
	return a.String() == b.String()
}

// enroll takes the roster's fields apart. A member that has left is none any more.
func (f *facts) enroll(fields map[string]string) {
	f.nonce, f.gone, f.survey.members = fields[record.NonceField], gone{}, nil
	if text := fields[record.GoneField]; text != "" {
		f.gone.bytes = text
		f.gone.Gone, f.gone.err = record.ParseGone(text)
	}
	for id, text := range fields {
		if id == record.NonceField || id == record.GoneField {
			continue
		}
		m, err := migrate.ParseMember(text)
		if err == nil && m.ID != id {
			err = record.ErrForm
		}
		m.ID = id
		s := seat{MemberState: m, bytes: text, err: err}
		if err == nil && !m.Leaving.IsZero() && s.outlived(f.now) {
			continue
		}
		f.survey.members = append(f.survey.members, s)
	}
	slices.SortFunc(f.survey.members, func(a, b seat) int { return strings.Compare(a.ID, b.ID) })
	f.survey.strangers(f.survey.members)
}

// watchAhead notes for how long heartbeats in the future have not moved, by the
// elapsed time of this call.
func (d *desk) watchAhead(f *facts) {
	seen, now := map[string]unmoved{}, d.clock.Moment()
	for i := range f.survey.members {
		m := &f.survey.members[i]
		if m.err != nil || !m.ahead(f.now) {
			continue
		}
		was, ok := d.ahead[m.ID]
		if !ok || was.bytes != m.bytes {
			was = unmoved{m.bytes, now}
		}
		m.still = now.Elapsed - was.since.Elapsed
		seen[m.ID] = was
	}
	d.ahead = seen
}

// awaitAhead looks again while a heartbeat lies in the future, up to Options.Wait:
// one that does not move is of a member that has vanished.
func (d *desk) awaitAhead(ctx context.Context, f *facts) (*facts, error) {
	unclear := func(m seat) bool {
		enough := m.vanished(f.now) && (!d.forgets(m.ID) || m.outlived(f.now))
		return m.err == nil && m.ahead(f.now) && !enough
	}
	began := d.clock.Moment()
	for slices.ContainsFunc(f.members(), unclear) && d.clock.Since(began) < d.opts.Wait {
		d.progress("a heartbeat lies in the future; whether it moves is looked for", began)
		select {
		case <-d.clock.After(lookEvery):
		case <-ctx.Done():
			return nil, fmt.Errorf("migrate: waiting for a heartbeat: %w", context.Cause(ctx))
		}
		var err error
		if f, err = d.gather(ctx); err != nil {
			return nil, err
		}
	}
	return f, nil
}

func (d *desk) forgets(id string) bool {
	return slices.Contains(d.opts.Forget, id) || slices.Contains(d.opts.Forget, allDead)
}

// whyLost says why members may have been lost: the roster is not the one that
// the record names, or the server has started since, from a copy that may be
// older. Empty if nothing says so. Where run ids are unknown the nonce alone
// counts.
func (f *facts) whyLost() string {
	switch run := f.record.Run; {
	case f.nonce == "":
		return fmt.Sprintf("the roster %s is not there", record.RosterKey(f.namespace))
	case f.nonce != f.record.Roster:
		return fmt.Sprintf("the roster %s is not the one that the record names", record.RosterKey(f.namespace))
	case run != "" && f.server.runID != "" && run != f.server.runID:
		return "the server restarted or another took over (its run id is not that of the last step)"
	}
	return ""
}

// lostFor is how long after members may have been lost the last lease of one of
// them can run.
func (f *facts) lostFor() time.Duration {
	every, ttl := f.record.Every, f.record.TTL
	renews := record.RenewalsFor(every)
	for _, m := range f.members() {
		if m.err == nil {
			ttl, renews = max(ttl, m.TTL), max(renews, m.Renews)
		}
	}
	return renews + ttl + record.Late
}

// trustOfLoss is what a look of another machine may be wrong by.
const trustOfLoss = time.Second

// lostSince is for how long it is known that members may have been lost, and
// false where that has to be noted (anew).
func (f *facts) lostSince() (age time.Duration, noted bool) {
	if f.record.Lost == (look.Reading{}) || f.whyLost() != "" {
		return 0, false
	}
	before, now := f.record.Lost, f.reading
	if before.Run == "" && now.Run == "" {
		before.Run, now.Run = f.nonce, f.nonce // which then counts alone
	}
	return before.Age(now, trustOfLoss)
}

// lostCauses is what may have happened where the record notes that members may
// be missing. The record does not say which of them it was.
const lostCauses = "the server restarted, another took over, or the roster was lost"

// lost keeps every gate closed while leases may run of members that the roster
// has lost.
func (b *builder) lost() {
	why := b.whyLost()
	noted := b.record.Lost != (look.Reading{})
	if why == "" && !noted {
		b.runID()
		return
	}
	need := b.lostFor()
	age, counts := b.lostSince()
	switch {
	case why != "":
		b.blockFor(need, "lost", "%s, and members whose leases still run may be missing from the roster: any step with --go notes that; the gates may open %v later, when every live member has sent a heartbeat and no lease of a missing member is left", why, need)
	case !counts:
		b.blockFor(need, "lost", "members may be missing from the roster since %v (%s), and the clocks that would say for how long do not agree: any step with --go begins anew with %v", instant(b.record.Lost), lostCauses, need)
	case age <= need:
		b.blockFor(need-age, "lost", "members may be missing from the roster since %v (%s): their leases are over in %v (longest lease %v, last renewals %v after the last heartbeat)",
			instant(b.record.Lost), lostCauses, (need - age).Round(time.Millisecond), b.record.TTL, record.RenewalsFor(b.record.Every))
	default:
		b.note("lost", "members may have been missing from the roster at %v (%s); every lease of that time is over", instant(b.record.Lost), lostCauses)
	}
	b.runID()
}

// runID says where the nonce alone tells a lost roster.
func (b *builder) runID() {
	if b.facts.server.noRun != "" {
		b.note("run-id", "%s, so that members were lost is seen by the roster's nonce alone", b.facts.server.noRun)
	}
}

func instant(r look.Reading) string {
	return time.Unix(0, 0).Add(r.Server).UTC().Format("2006-01-02 15:04:05Z")
}

// noteLost writes into the record that members may have been lost, if that is so
// and not noted yet.
func (d *desk) noteLost(ctx context.Context, f *facts) (*facts, error) {
	for f.record.exists() && f.record.err == nil && !f.outdated() {
		if _, noted := f.lostSince(); noted || f.whyLost() == "" && f.record.Lost == (look.Reading{}) {
			break
		}
		if err := d.beginRoster(ctx, f); err != nil {
			return nil, err
		}
		next := f.record.Record
		next.Lost, next.Roster, next.Run = f.reading, f.nonce, f.run()
		_, err := change(ctx, d.mux, d.opts.Namespace, f.record, next, nil)
		if err != nil && !errors.Is(err, errRaced) {
			return nil, d.refused(err)
		}
		if err == nil {
			d.log(ctx, nil, Entry{At: f.now, Epoch: next.Epoch, Lost: true})
		}
		if f, err = d.gather(ctx); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// beginRoster sees to it that the roster has a nonce.
func (d *desk) beginRoster(ctx context.Context, f *facts) error {
	if f.nonce != "" {
		return nil
	}
	replies := d.mux.Batch(ctx, []wire.Command{
		wire.Cmd("HSETNX", record.RosterKey(f.namespace), record.NonceField, record.NewID()),
		wire.Cmd("HGET", record.RosterKey(f.namespace), record.NonceField),
	})
	nonce, err := redis.String(replies[1].Value, errors.Join(replies[0].Err, replies[1].Err))
	if err != nil {
		return d.refused(fmt.Errorf("migrate: beginning the roster %s: %w", record.RosterKey(f.namespace), err))
	}
	f.nonce = nonce
	return nil
}

// run is the run id that the record says next.
func (f *facts) run() string {
	if f.server.runID == "" {
		return f.record.Run
	}
	return f.server.runID
}

// greatest raises what the record keeps of all members to what they say.
func (f *facts) greatest(r *migrate.Record) {
	r.Every, r.TTL = max(r.Every, f.record.Every), max(r.TTL, f.record.TTL)
	for _, m := range f.members() {
		if m.err == nil {
			r.Every, r.TTL = max(r.Every, m.Every), max(r.TTL, m.TTL)
		}
	}
}
