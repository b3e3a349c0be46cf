package main

import (
	"context"
	"net"
	"sync"
	"time"
)

// Distant returns [Dial] for a server at an additional round trip: everything
// from the server arrives that much later, at the same rate.
func Distant(roundTrip time.Duration) dialer {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := Dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		d := &far{Conn: conn, roundTrip: roundTrip, arrived: make(chan arrival, 1<<12),
			closed: make(chan struct{})}
		go d.receive()
		return d, nil
	}
}

type far struct {
	net.Conn
	roundTrip time.Duration
	arrived   chan arrival
	rest      []byte
	closing   sync.Once
	closed    chan struct{}
}

type arrival struct {
	at   time.Time
	data []byte
	err  error
}

// receive reads from the server until the connection ends.
func (d *far) receive() {
	for {
		p := make([]byte, 16<<10)
		n, err := d.Conn.Read(p)
		select {
		case d.arrived <- arrival{time.Now(), p[:n], err}:
		case <-d.closed:
			return
		}
		if err != nil {
			return
		}
	}
}

func (d *far) Read(p []byte) (int, error) {
	if len(d.rest) == 0 {
		select {
		case a := <-d.arrived:
			time.Sleep(time.Until(a.at.Add(d.roundTrip)))
			if len(a.data) == 0 && a.err != nil {
				return 0, a.err
			}
			d.rest = a.data
		case <-d.closed:
			return 0, net.ErrClosed
		}
	}
	n := copy(p, d.rest)
	d.rest = d.rest[n:]
	return n, nil
}

func (d *far) Close() error {
	d.closing.Do(func() { close(d.closed) })
	return d.Conn.Close()
}
