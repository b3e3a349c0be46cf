package main

import (
	"context"
	"errors"
	"time"

	"github.com/gomodule/redigo/redis"
)

// bareWaiter is the minimum that a client needs to wait for another's DEL
// without polling: the server notifies one connection, and a SETNX is sent on
// another. It has no token, no clock, no competitors and no way to stop
// waiting. Its time is what the system, the server and redigo take.
type bareWaiter struct {
	key       string
	ask, hear redis.Conn
}

func dialBare(addr, key string) (*bareWaiter, error) {
	ask, err := redis.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	hear, err := redis.Dial("tcp", addr)
	if err != nil {
		_ = ask.Close()
		return nil, err
	}
	b := &bareWaiter{key: key, ask: ask, hear: hear}
	id, err := redis.Int64(hear.Do("CLIENT", "ID"))
	if err == nil {
		_, err = hear.Do("SUBSCRIBE", "__redis__:invalidate")
	}
	if err == nil {
		_, err = ask.Do("CLIENT", "TRACKING", "ON", "REDIRECT", id, "NOLOOP")
	}
	if err != nil {
		_ = b.close()
		return nil, err
	}
	return b, nil
}

func (b *bareWaiter) close() error { return errors.Join(b.hear.Close(), b.ask.Close()) }

// waits makes the server watch the key by reading it.
func (b *bareWaiter) waits(context.Context) (held func() (int64, error), err error) {
	value, err := b.ask.Do("GET", b.key)
	if err == nil && value == nil {
		err = errors.New("the Java client does not hold the key")
	}
	if err != nil {
		return nil, err
	}
	type got struct {
		at  int64
		err error
	}
	done := make(chan got, 1)
	go func() {
		at, err := b.take()
		done <- got{at, err}
	}()
	return func() (int64, error) {
		g := <-done
		return g.at, g.err
	}, nil
}

// take waits for the notification and takes the key. It returns when it had the
// key, in µs, and frees it again.
func (b *bareWaiter) take() (at int64, err error) {
	if _, err := redis.ReceiveWithTimeout(b.hear, 10*time.Second); err != nil {
		return 0, err
	}
	n, err := redis.Int(b.ask.Do("SETNX", b.key, "bare"))
	at = time.Now().UnixMicro()
	if err == nil && n != 1 {
		err = errors.New("another client was faster")
	}
	if err == nil {
		_, err = b.ask.Do("DEL", b.key)
	}
	return at, err
}
