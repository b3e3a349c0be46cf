module github.com/getsetlock/getsetlock/adapters/gocron

go 1.26.0

require (
	github.com/getsetlock/getsetlock v0.0.0-20261128133937-bf6154e2a70c
	github.com/go-co-op/gocron/v2 v2.21.2
)

require (
	github.com/google/uuid v1.6.0 // indirect
	github.com/jonboulle/clockwork v0.5.0 // indirect
	github.com/robfig/cron/v3 v3.0.1 // indirect
	golang.org/x/sys v0.49.0 // indirect
)
