# The image of the command: one static program and the certificates of public
# authorities. It has no shell and runs as user 65532.
#
#   docker build --build-arg VERSION="$(git describe --tags --match 'v*' --always)" -t getsetlock .
#   docker run --rm getsetlock ls --redis redis://10.0.0.1
#
# `run KEY -- PROGRAM` starts a program of the same image. So a job's image
# takes the command from this one:
#
#   FROM debian:bookworm-slim
#   COPY --from=ghcr.io/getsetlock/getsetlock:v0.1.0 /usr/local/bin/getsetlock /usr/local/bin/
#   COPY nightly-import /usr/local/bin/
#   ENTRYPOINT ["getsetlock", "run", "--wait", "0s", "nightly", "--"]
#   CMD ["nightly-import"]
#
# The entry point is a list, without a shell. getsetlock then is PID 1: it gets
# the signals of `docker stop`, passes them on to the job and reaps orphans.
#
# tools/release/testdata/script/image.txt builds this file where docker works.
# Everywhere it executes the last RUN, which names only files below WORKDIR.

FROM --platform=$BUILDPLATFORM golang:1.26-bookworm AS go

FROM go AS build
ARG TARGETOS
ARG TARGETARCH
ARG VERSION=unknown
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH go build -trimpath -buildvcs=false \
    -ldflags "-s -w -X github.com/getsetlock/getsetlock/cmd/getsetlock/internal/verbs/smallverbs.linked=$VERSION" \
    -o getsetlock ./cmd/getsetlock

FROM scratch AS common
COPY --from=go /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
USER 65532:65532
ENTRYPOINT ["/usr/local/bin/getsetlock"]

# goreleaser builds this stage, from the programs that it has built itself.
FROM common AS released
ARG TARGETPLATFORM
COPY $TARGETPLATFORM/getsetlock /usr/local/bin/getsetlock

# Without --target, this stage is built.
FROM common
COPY --from=build /src/getsetlock /usr/local/bin/getsetlock
