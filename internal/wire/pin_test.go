package wire

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
)

// TestPinSendsNothingOnAnotherConnection: the Mux has dialed again meanwhile.
func TestPinSendsNothingOnAnotherConnection(t *testing.T) {
	bubble(t, func(t *testing.T, w *redistest.World) {
		wire := w.Wire()
		m := open(t, wire.Pool(), Options{})
		p, err := m.Pin(bg)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := m.Pin(bg); again != p || err != nil {
			t.Errorf("another pin of one connection: %v, %v", again, err)
		}
		if _, err := p.Do(bg, "SET", "k", "1"); err != nil {
			t.Error(err)
		}
		if r := p.Batch(bg, []Command{Cmd("GET", "k"), Cmd("PING")}); r[0].Err != nil || r[1].Err != nil {
			t.Errorf("replies %v", r)
		}
		wire.Cut()
		synctest.Wait()
		_, err = p.Do(bg, "SET", "k", "2")
		notSent(t, err, ErrLost)
		works(t, m)
		_, err = p.Eval(bg, NewScript(1, "-- set: key → OK\nreturn redis.call('SET', KEYS[1], '3')"), "k")
		notSent(t, err, ErrLost)
		notSent(t, p.Batch(bg, []Command{Cmd("SET", "k", "4")})[0].Err, ErrLost)
		if v, _ := w.Mini.Get("k"); v != "1" {
			t.Errorf("the server got %q", v)
		}
		if next, err := m.Pin(bg); next == p || err != nil {
			t.Errorf("pin of a new connection: %v, %v", next, err)
		}
	})
}

// TestPinSendsNothingWhereNobodyAnswersAPing: the connection was idle, and a
// firewall has forgotten it.
func TestPinSendsNothingWhereNobodyAnswersAPing(t *testing.T) {
	bubble(t, func(t *testing.T, w *redistest.World) {
		wire := w.Wire()
		m := open(t, wire.Pool(), Options{})
		p, err := m.Pin(bg)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Do(bg, "SET", "k", "1"); err != nil {
			t.Error(err)
		}
		wire.Swallow()
		time.Sleep(provenFor + time.Second)
		_, err = p.Do(bg, "SET", "k", "2")
		notSent(t, err, nil)
		works(t, m)
	})
}

// The connection is retired, and the reply to the first command has not come.
func TestCommandBehindAnotherFollowsItOnItsConnection(t *testing.T) {
	bubble(t, func(t *testing.T, w *redistest.World) {
		gate := redistest.NewGate()
		m := open(t, w.FaultyPool(redistest.Rule{Command: "SET", Do: redistest.HoldRequest(gate)}), Options{})
		works(t, m)
		time.Sleep(2 * m.Timeout()) // a young connection is not retired
		ctx, cancel := context.WithTimeout(bg, m.Timeout()/2)
		defer cancel()
		_, err := m.Do(ctx, "SET", "k", "v")
		pending := unknown(t, err, context.DeadlineExceeded)
		if _, _, known := pending.Reply(); known {
			t.Error("the reply is known")
		}
		works(t, m) // on another connection
		go func() {
			synctest.Wait()
			gate.Open()
		}()
		if n, err := redis.Int(pending.Behind().Do(bg, "DEL", "k")); n != 1 || err != nil {
			t.Errorf("behind the SET, DEL deleted %d, %v", n, err)
		}
		if v, err, known := pending.Reply(); v != "OK" || err != nil || !known {
			t.Errorf("the late reply is %v, %v, known %v", v, err, known)
		}
		_, err = pending.Behind().Do(bg, "DEL", "k") // the connection has ended with its last reply
		notSent(t, err, ErrLost)
	})
}
