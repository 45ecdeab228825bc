# SPDX-License-Identifier: Apache-2.0
# mprun in a container, with its experiment kernel: docker build -t mprun . && docker run --rm -v "$PWD:/work" mprun lab run 01
# The virtual engine needs no privilege. The real engine does: --privileged, or --cap-add with what `mprun doctor` names.
FROM debian:12
COPY . /opt/mprun
RUN /opt/mprun/provision.sh && rm -rf /var/lib/apt/lists/*
WORKDIR /work
ENTRYPOINT ["mprun"]
CMD ["doctor"]
