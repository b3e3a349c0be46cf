// SPDX-License-Identifier: Apache-2.0

//go:build real && linux

package stores

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"
)

// raw passes messages on as they are.
type raw struct{}

func (raw) Name() string { return "proto" }

func (raw) Marshal(v any) ([]byte, error) { return *v.(*[]byte), nil }

func (raw) Unmarshal(data []byte, v any) error {
	*v.(*[]byte) = data
	return nil
}

// pretend stands before an etcd, and makes it look like one of another version.
func pretend(t *testing.T, server, version string) string {
	t.Helper()
	behind, err := grpc.NewClient(server, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodec(raw{})))
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	front := grpc.NewServer(grpc.ForceServerCodec(raw{}), grpc.UnknownServiceHandler(
		func(_ any, in grpc.ServerStream) error {
			method, _ := grpc.MethodFromServerStream(in)
			return pass(in, behind, method, version)
		}))
	go func() { _ = front.Serve(l) }()
	t.Cleanup(func() {
		front.Stop()
		_ = behind.Close()
	})
	return l.Addr().String()
}

// pass passes one call on.
func pass(in grpc.ServerStream, behind *grpc.ClientConn, method, version string) error {
	ctx, cancel := context.WithCancel(in.Context())
	defer cancel()
	next, err := behind.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, method)
	if err != nil {
		return err
	}
	go func() {
		defer next.CloseSend()
		for {
			var message []byte
			if in.RecvMsg(&message) != nil || next.SendMsg(&message) != nil {
				return
			}
		}
	}()
	for {
		var reply []byte
		switch err := next.RecvMsg(&reply); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		if strings.HasSuffix(method, "/Status") {
			var said etcdserverpb.StatusResponse
			if err := proto.Unmarshal(reply, &said); err != nil {
				return err
			}
			said.Version = version
			if reply, err = proto.Marshal(&said); err != nil {
				return err
			}
		}
		if err := in.SendMsg(&reply); err != nil {
			return err
		}
	}
}

func TestOldServersOfEtcdAreNamed(t *testing.T) {
	t.Parallel()
	server := startEtcd(t)
	s := on(t, "etcd://"+pretend(t, server, "3.3.27"))
	s.Want(s.Run("run", "nightly", "--", "true"), 122, "",
		"it runs etcd 3.3.27; locks need 3.4 or later: upgrade it")
	s = on(t, "etcd://"+pretend(t, server, "3.4.37"))
	held, end := holding(s, "nightly")
	held.Errors.Await("\n")
	end()
	got := <-held.Done
	s.Want(got, 0, held.Out.String(), "warning: this etcd server may grant a lock twice")
}
