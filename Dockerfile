# Two stages: the program is built in the first from this checkout and runs alone in the second.
#   docker build -t basalt:0.1.0 .
FROM debian:12 AS build
WORKDIR /src
COPY . .
RUN make

FROM debian:12-slim
RUN apt-get update \
 && apt-get install -y --no-install-recommends ca-certificates libcurl4 libfmt9 libnghttp2-14 \
    libre2-9 libspdlog1.10 libsqlite3-0 libssl3 libyaml-0-2 \
 && rm -rf /var/lib/apt/lists/*
COPY --from=build /src/build/basalt /usr/local/bin/basalt
COPY deploy/gen-admission-secret.sh /
RUN for name in vcctl vc-controller-manager vc-webhook-manager; do ln -s basalt "/usr/local/bin/$name"; done
USER 1000
ENTRYPOINT ["/usr/local/bin/basalt"]
