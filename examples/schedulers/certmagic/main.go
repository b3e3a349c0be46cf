// SPDX-License-Identifier: Apache-2.0

// Command certmagic gets a certificate once for all machines that share a
// folder. Their locks are in Redis.
package main

import (
	"context"
	"flag"
	"log"

	"github.com/caddyserver/certmagic"

	locks "github.com/getsetlock/getsetlock/adapters/certmagic"
	"github.com/getsetlock/getsetlock/modern"
)

func main() {
	redis := flag.String("redis", "redis://127.0.0.1:6379", "address of a Redis server")
	folder := flag.String("folder", ".", "where the machines keep certificates")
	name := flag.String("name", "", "domain name of the certificate")
	flag.Parse()
	if err := obtain(context.Background(), *redis, *folder, *name); err != nil {
		log.Fatal(err)
	}
}

// obtain gets a certificate unless another machine has stored one. Without
// issuers it asks Let's Encrypt.
func obtain(ctx context.Context, redis, folder, name string, issuers ...certmagic.Issuer) error {
	client, err := modern.Open(ctx, redis, modern.Options{})
	if err != nil {
		return err
	}
	defer client.Close(ctx)
	storage := locks.Wrap(&certmagic.FileStorage{Path: folder}, client, "certmagic:")
	var cache *certmagic.Cache
	cache = certmagic.NewCache(certmagic.CacheOptions{
		GetConfigForCert: func(certmagic.Certificate) (*certmagic.Config, error) {
			return certmagic.New(cache, certmagic.Config{Storage: storage}), nil
		},
	})
	defer cache.Stop()
	config := certmagic.New(cache, certmagic.Config{Storage: storage, Issuers: issuers})
	return config.ObtainCertSync(ctx, name)
}
