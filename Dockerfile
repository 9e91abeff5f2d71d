# The program is built in the first stage from this checkout and runs alone in the second.
#   docker build -t basalt:0.1.0 .
# For a Deployment of Volcano whose image alone is replaced, images that take its arguments as they are:
#   docker build -t vc-controller-manager:0.1.0 --target vc-controller-manager .
#   docker build -t vc-webhook-manager:0.1.0 --target vc-webhook-manager .
FROM debian:12 AS build
WORKDIR /src
COPY . .
RUN apt-get update && apt-get install -y --no-install-recommends make && make

FROM debian:12-slim AS basalt
RUN apt-get update \
 && apt-get install -y --no-install-recommends ca-certificates libcurl4 libfmt9 libnghttp2-14 \
    libprometheus-cpp-core1.0 libre2-9 libspdlog1.10 libsqlite3-0 libssl3 libyaml-0-2 zlib1g \
 && rm -rf /var/lib/apt/lists/*
COPY --from=build /src/build/release/apps/basalt/basalt /usr/local/bin/basalt
COPY deploy/gen-admission-secret.sh /
RUN for name in vcctl vc-controller-manager vc-webhook-manager; do ln -s basalt "/usr/local/bin/$name"; done
USER 1000
ENTRYPOINT ["/usr/local/bin/basalt"]

FROM basalt AS vc-controller-manager
ENTRYPOINT ["/usr/local/bin/vc-controller-manager"]

FROM basalt AS vc-webhook-manager
ENTRYPOINT ["/usr/local/bin/vc-webhook-manager"]

# The last stage is what is built by default.
FROM basalt
