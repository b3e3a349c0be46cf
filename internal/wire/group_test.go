package wire

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
)

// servers are two servers, and a hook that leads to one of them.
type servers struct {
	wires [2]*redistest.Wire
	minis [2]*redistest.World
	leads int
	dials int
}

func two(t *testing.T, w *redistest.World) *servers {
	p := &servers{minis: [2]*redistest.World{w, redistest.Bubble(t)}}
	for i, id := range []string{"aaaa", "bbbb"} {
		p.wires[i] = p.minis[i].Wire()
		if c, err := p.minis[i].Dial(bg); err == nil { // this starts the server
			c.Close()
		}
		p.minis[i].Run(id)
	}
	return p
}

func (p *servers) pool() *redis.Pool {
	hooks := [2]*redis.Pool{p.wires[0].Pool(), p.wires[1].Pool()}
	return &redis.Pool{DialContext: func(ctx context.Context) (redis.Conn, error) {
		p.dials++
		return hooks[p.leads].DialContext(ctx)
	}}
}

// One Mux is dialed after the fail-over. The other Mux's connection, which
// still answers, ends with its last reply.
func TestGroupFollowsAFailover(t *testing.T) {
	bubble(t, func(t *testing.T, w *redistest.World) {
		p, g := two(t, w), new(Group)
		pool := p.pool()
		user, own := open(t, pool, Options{Group: g}), open(t, pool, Options{Group: g})
		works(t, user)
		time.Sleep(time.Second)
		p.leads = 1
		gate := redistest.NewGate()
		p.wires[0].Fault(redistest.Rule{Command: "SET", Do: redistest.HoldReply(gate)})
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := user.Do(bg, "SET", "before", "v"); err != nil {
				t.Error(err)
			}
		})
		<-gate.Reached()
		works(t, own)
		synctest.Wait()
		gate.Open()
		wg.Wait()
		synctest.Wait()
		if _, err := user.Do(bg, "SET", "after", "v"); err != nil {
			t.Error(err)
		}
		if !p.minis[0].Mini.Exists("before") || !p.minis[1].Mini.Exists("after") {
			t.Error("the command was sent to the old server")
		}
		if n := p.wires[0].Connections(); n != 0 {
			t.Errorf("%d connections lead to the old server", n)
		}
	})
}

// The hooks lead to different servers for good.
func TestGroupDialsSeldomIfHooksDisagree(t *testing.T) {
	bubble(t, func(t *testing.T, w *redistest.World) {
		one, g := two(t, w), new(Group)
		other := &servers{wires: one.wires, leads: 1}
		user, own := open(t, one.pool(), Options{Group: g}), open(t, other.pool(), Options{Group: g})
		for range 60 {
			for range 10 {
				works(t, user)
				time.Sleep(time.Millisecond)
				works(t, own)
				time.Sleep(time.Millisecond)
			}
			time.Sleep(time.Second)
		}
		if dials, most := one.dials+other.dials, int(time.Minute/defaultTimeout)+4; dials > most {
			t.Errorf("%d dials in a minute, want at most %d", dials, most)
		}
	})
}

// The Group asks whether the server has INFO. If the server hangs up, refuses,
// or is silent, no connection with commands ends and no caller waits.
func TestGroupAsksOnAConnectionOfItsOwn(t *testing.T) {
	for name, do := range map[string]redistest.Action{
		"hangs up": redistest.CutBefore, "refuses": redistest.Answer(redistest.NoPerm),
		"is silent": redistest.Silence,
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *redistest.World) {
				wire, g := w.Wire(redistest.Rule{Command: "INFO", Times: -1, Do: do}), new(Group)
				lost := 0
				pool, o := wire.Pool(), Options{Group: g, Lost: func(error) { lost++ }}
				user, own := open(t, pool, o), open(t, pool, o)
				begun := time.Now()
				for range 3 {
					works(t, user)
					works(t, own)
				}
				if took := time.Since(begun); took != 0 {
					t.Errorf("the commands took %v", took)
				}
				time.Sleep(defaultTimeout)
				synctest.Wait()
				wire.Fault(redistest.Rule{Command: "PING", Do: redistest.CutBefore})
				if _, err := user.Do(bg, "PING"); err == nil {
					t.Error("the connection was not cut")
				}
				works(t, user)
				synctest.Wait()
				if n := wire.Count("INFO"); n != 1 || lost != 1 {
					t.Errorf("asked %d times; %d connections lost", n, lost)
				}
			})
		})
	}
}
