# SPDX-License-Identifier: MIT OR Apache-2.0
# harness and its QEMU, from the bundle that ci/bundle makes: ci/bundle && docker build -t harness .
# Firmware and suite are mounted: docker run --rm -v "$PWD:/work" harness test
FROM debian:trixie-slim AS unpacked
RUN apt-get update && apt-get install -y --no-install-recommends zstd && rm -rf /var/lib/apt/lists/*
ARG BUNDLE=target/bundle/harness-*.tar.zst
COPY ${BUNDLE} /tmp/bundle/
RUN mkdir /opt/harness && zstd -q -d -c /tmp/bundle/*.tar.zst | tar -x -C /opt/harness --strip-components=1

FROM debian:trixie-slim
COPY --from=unpacked /opt/harness /opt/harness
ENV PATH=/opt/harness/bin:$PATH
WORKDIR /work
ENTRYPOINT ["harness"]
