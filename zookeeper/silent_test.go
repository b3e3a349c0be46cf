// SPDX-License-Identifier: Apache-2.0

package zookeeper

import (
	"context"
	"io"
	"net"
	"testing"
	"time"
)

// A server accepts connections and is no ZooKeeper: it says nothing, or
// something that begins like a long greeting. An attempt ends with its context,
// and Close ends too.
func TestAttemptEndsAtAServerThatIsNoZooKeeper(t *testing.T) {
	for _, says := range []string{"", "\x00\x00\x0c\x04\x00\x00"} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		asked := make(chan struct{}, 16)
		go func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				go func() {
					defer conn.Close()
					_, _ = io.ReadFull(conn, make([]byte, 4))
					_, _ = io.WriteString(conn, says)
					asked <- struct{}{}
					_, _ = io.Copy(io.Discard, conn)
				}()
			}
		}()
		b, err := New([]string{l.Addr().String()}, Config{Timeout: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			<-asked
			cancel()
		}()
		ended := make(chan error)
		go func() {
			_, err := b.Contract().Try(ctx, "k", 30*time.Second)
			ended <- err
		}()
		if err := <-ended; err == nil {
			t.Error("no error")
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		_ = l.Close()
	}
}

// The library would wait for the greeting for ten times its usual patience, and
// for the rest of a greeting that has begun for ever.
func TestGreetingHasADeadline(t *testing.T) {
	ours, theirs := net.Pipe()
	defer theirs.Close()
	defer ours.Close()
	c := &tap{Conn: ours}
	if err := c.Conn.SetReadDeadline(time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	if err := c.SetReadDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Conn.Read(make([]byte, 1)); err == nil {
		t.Error("the library took the deadline of the greeting away")
	}
	c.head = make([]byte, greeting)
	if err := c.SetReadDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = theirs.Write([]byte("x")) }()
	if _, err := c.Conn.Read(make([]byte, 1)); err != nil {
		t.Errorf("after the greeting: %v", err)
	}
}
