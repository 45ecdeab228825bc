# SPDX-License-Identifier: Apache-2.0
# The commands of a newcomer (lab, test) and of a developer (lint, bench).

.PHONY: help setup ready dev quic lab labs test tests check mutations selftests lint bench fidelity physics interop fairness simulator cycle planted soak fuzz hostile kills upgrades docs fresh vm golden pictures gallery studies dist clean

# that of another Python than .venv's
unexport PYTHONHOME

help:
	@echo "make lab     set up what is missing, run the first lab with TCP and with MPTCP"
	@echo "make test    set up what is missing, run the tests; with LONG=1 also tests of a minute or more: the studies' labs,"
	@echo "             a kernel of your own, gdb; with LINT=1 make lint beside them; with FRESH=1"
	@echo "             each run is made, and none taken from earlier calls."
	@echo "             Ends with the slowest tests and the number of runs. On two cores: 20 minutes with an empty"
	@echo "             store of runs, 13 with a full one"
	@echo "make check    lint and the fast tests; one minute, for daily work"
	@echo "make mutations  put three errors into a copy of the tree, and print the tests that find each; WORDS=-x stops at the first"
	@echo "make selftests  the kernel's own tests of MPTCP inside the experiment kernel; ten minutes of one CPU"
	@echo "make setup   packages, .venv, experiment kernel: what running needs"
	@echo "make dev     the same, and what tests, linters and the site need"
	@echo "make quic    the same, and the tool for multipath QUIC (packages-quic.txt; one to three minutes)"
	@echo "make lint    ruff and mypy"
	@echo "make bench   measure speed (start, network, traffic, hops, command line) and fidelity; half an hour"
	@echo "make simulator  CPU time against ns-3 on the same networks: docs/measured/speed.md; five minutes"
	@echo "make fidelity  links asked against got: docs/measured/fidelity.md"
	@echo "make physics  drawn networks against closed forms: docs/measured/physics.md; SEED=n draws others; three minutes"
	@echo "make fairness  coupled congestion control against TCP (writes docs/measured/fairness.md); half an hour"
	@echo "make interop  QUIC libraries against each other: docs/measured/interop.md; eight minutes on two busy cores"
	@echo "make cycle   from an edit of a kernel tree to the result of a run; fifteen minutes"
	@echo "make planted  plant two faults in the kernel's MPTCP, and time the commands that find them; ten minutes"
	@echo "make soak    6 h of simulated time with each scheduler and congestion control (writes docs/measured/soak.md), and programs"
	@echo "             of other people (packages-soak.txt; writes docs/measured/programs.md); three quarters of an hour"
	@echo "make fuzz SECONDS=600  mutated input files and damaged run directories: no traceback, nothing over 5 s or 1 GB"
	@echo "make kills   kill runs and sweeps at 580 random moments: nothing left, lost, repeated or falsely passed; an hour"
	@echo "make upgrades  change libraries and programs of this machine at 100 moments of runs, and install a package beside a sweep,"
	@echo "             all in an overlay: no result changes; needs root, twenty minutes on a busy machine"
	@echo "make hostile  what hostile files get: guests, links, bundles, kernels, templates, bombs, texts, pages, exports, limits; half an hour"
	@echo "make docs    the documentation as a site: build/site/index.html"
	@echo "make fresh   set up from nothing in a tree of packages (SUITE=bookworm), run the first lab; needs root, ten minutes;"
	@echo "             with STAGE=archive from the kernel in dist, without a compiler; five minutes; with STAGE=wheel"
	@echo "             from the wheels in dist, without a checkout; with STAGE=equal so on three releases, with equal captures"
	@echo "make vm      the real engine on distributions' kernels (KERNEL=\"6.1 6.12 6.8\", SHORT=1) in QEMU; needs root"
	@echo "make pictures  draw the pictures in the labs' READMEs again (LABS=\"01 02\"), each from a run of its step; two minutes"
	@echo "make gallery  draw the pictures of docs/gallery/index.md again; needs chromium; two minutes"
	@echo "make studies  measure the tutorial and the studies again, and write their pages (STUDIES=10,12: these labs only);"
	@echo "             an interrupted call resumes; hours"
	@echo "make dist    what a release consists of, in dist: package, kernel, list of parts, notes, checksums; one minute"
	@echo "make golden  rewrite the golden files of the tests, the schemas and the generated pages of the docs"

setup: ready
	@echo "next, in each new terminal: . .venv/bin/activate; then mprun lab run 01, or mprun new mine"

ready:
	@./setup.sh

dev:
	@./setup.sh --dev

quic:
	@./setup.sh --quic

tests:
	@echo "no target 'tests': did you mean 'make test'?" >&2; exit 2

labs:
	@echo "no target 'labs': did you mean 'make lab'?" >&2; exit 2

ifneq ($(filter 0% 1%,$(MAKECMDGOALS)),)
$(error 'make lab' runs lab 01; for others: . .venv/bin/activate; mprun lab run $(filter 0% 1%,$(MAKECMDGOALS)))
endif

lab: ready
	@./as_owner.sh .venv/bin/mprun lab run 01
	@echo "next, in each new terminal: . .venv/bin/activate; then mprun lab list, or mprun new mine"

# kernels and tools are built before, with all CPUs: two tests could build them side by side
test:
	@./setup.sh --dev --quic
	$(if $(LONG),.venv/bin/mprun kernel build --symbols)
	$(if $(LONG),.venv/bin/python -m tests.system.own_kernel)
	.venv/bin/python -m tests.phases $(if $(LONG),--long) $(if $(PART),--part $(PART)) $(if $(LINT),--lint) $(if $(FRESH),--fresh)

check: lint
	@.venv/bin/python -m pytest -q -n logical -m "not slow" tests/core tests/spec

WORDS ?=

mutations: dev
	@.venv/bin/python -m tests.mutations $(WORDS)

selftests: dev
	@.venv/bin/mprun kernel test

lint:
	@./setup.sh --dev --no-kernel
	.venv/bin/ruff check
	.venv/bin/ruff format --check
	.venv/bin/mypy

bench: ready
	@.venv/bin/python benchmarks/bench.py
	@.venv/bin/python benchmarks/build.py
	@.venv/bin/python benchmarks/hop.py
	@.venv/bin/python benchmarks/report.py
	@.venv/bin/python benchmarks/listing.py
	@.venv/bin/python benchmarks/sampling.py
	@.venv/bin/python benchmarks/packets.py
	@.venv/bin/python benchmarks/short_flows.py
	@.venv/bin/python benchmarks/fidelity.py
	@.venv/bin/python -m benchmarks.physics
	@.venv/bin/python benchmarks/sweep.py
	@.venv/bin/python benchmarks/sweep.py kill

simulator: ready
	@.venv/bin/python benchmarks/simulator.py

cycle: ready
	@.venv/bin/python benchmarks/kernel_cycle.py --whole

planted: ready
	@.venv/bin/python -m benchmarks.planted

soak: ready
	@.venv/bin/python benchmarks/soak.py
	@.venv/bin/python benchmarks/programs.py

interop: quic
	@.venv/bin/python -m benchmarks.interop

fairness: ready
	@.venv/bin/python benchmarks/fairness.py

fidelity: ready
	@.venv/bin/python benchmarks/fidelity.py

SECONDS ?= 600

fuzz: dev
	@.venv/bin/python benchmarks/fuzz.py $(SECONDS)

kills: dev
	@.venv/bin/python benchmarks/kill.py

upgrades: dev
	@.venv/bin/python benchmarks/upgrades.py

GROUPS ?=

hostile: dev
	@.venv/bin/python benchmarks/hostile.py $(GROUPS)

SEED ?= 1

physics: ready
	@.venv/bin/python -m benchmarks.physics --seed $(SEED)

dist: ready
	@./.ci/dist

docs:
	@./setup.sh --dev --no-kernel
	@.venv/bin/sphinx-build -q -W -b html -c docs . build/site && echo "wrote build/site/index.html"

SUITE ?= bookworm
STAGE ?=
# the suite's own kernel, as `make vm` calls it
kernel_of_bookworm = 6.1
kernel_of_trixie = 6.12
kernel_of_noble = 6.8

fresh:
	@.ci/fresh $(SUITE) $(STAGE)
	@$(if $(STAGE),,$(if $(kernel_of_$(SUITE)),$(MAKE) --no-print-directory vm SHORT=1 KERNEL=$(kernel_of_$(SUITE))))

KERNEL ?= 6.12
SHORT ?=

vm:
	@./setup.sh --dev --no-kernel
	@.venv/bin/python -m tests.vm $(if $(SHORT),--short) $(KERNEL)

golden: dev
	.venv/bin/python -m pytest -q -n logical --update-golden tests/core tests/spec
	.venv/bin/mprun schema --write schemas

LABS ?= 01 02 03 04 05 06

pictures: quic
	@.venv/bin/python -m docs.generate.pictures $(LABS)

gallery: quic
	@.venv/bin/python -m docs.generate.gallery

STUDIES ?=

studies: quic
	@.venv/bin/python -m docs.generate.studies $(if $(STUDIES),--labs $(STUDIES))

clean:
	rm -rf .venv build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache
