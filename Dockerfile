# Rushgate over HTTP: one binary, no shell beside it, not as root.
#
#   docker build --build-arg RUSHGATE_COMMIT="$(git rev-parse --short=9 HEAD)" -t rushgate .
#   docker run -p 7979:7979 -v rushgate:/var/lib/rushgate rushgate token create operator --role operator
#   docker run -p 7979:7979 -v rushgate:/var/lib/rushgate rushgate
#
# The working directory is the volume: rushgate.toml, tokens.json, and the SQLite files of the store and the ledger are there.
# RUSHGATE_STORE and RUSHGATE_ORDERS name others, and docs/operations/serve.md has every variable.

# The toolchain of rust-toolchain.toml: with another image rustup would install a second one.
FROM rust:1.95.0-slim-bookworm AS build
# The compiler of C is for SQLite and the cryptography.
RUN apt-get update && apt-get install -y --no-install-recommends build-essential && rm -rf /var/lib/apt/lists/*
WORKDIR /src
# What --version prints: the checkout's history is not part of the build.
ARG RUSHGATE_COMMIT
COPY . .
RUN cargo build --profile dist --locked -p rushgate-cli && mkdir /data

FROM gcr.io/distroless/cc-debian12:nonroot
COPY --from=build /src/target/dist/rushgate /usr/local/bin/rushgate
COPY --from=build --chown=nonroot:nonroot /data /var/lib/rushgate
WORKDIR /var/lib/rushgate
VOLUME /var/lib/rushgate
ENV RUSHGATE_SERVE_LISTEN=0.0.0.0:7979 \
    RUSHGATE_SERVE_TOKENS=tokens.json \
    RUSHGATE_ORDERS=sqlite:orders.db
EXPOSE 7979
# TERM ends it in order; the runtime should wait longer than --grace.
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=6s --start-period=5s CMD ["/usr/local/bin/rushgate", "serve", "--check"]
ENTRYPOINT ["/usr/local/bin/rushgate"]
CMD ["serve"]
