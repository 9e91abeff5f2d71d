# The one entry. Every target installs what it needs first (Debian packages of tools/debian-packages.txt, if any is missing).
.DEFAULT_GOAL := basalt
.PHONY: help basalt run test bench kube format check generate packages clean fuzz lint
SHELL := /bin/bash
JOBS ?= $(shell nproc)

help: ## say what there is
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## (.*)/  make \1\t\2/' | expand -t 20

packages: ## install the Debian packages that are missing
	@tools/install-packages

basalt: packages ## build the program: build/basalt
	@tools/build release basalt
	@ln -sf release/apps/basalt/basalt build/basalt
	@echo "built: build/basalt ($$(build/basalt --version))"

run: basalt ## build, run the main job end to end, say what to try next
	@tools/run-demo

test: packages ## run every test lane this machine can run (CI=true: all of them, none skipped)
	@tools/test

bench: packages ## print the figures, with what they are compared to
	@tools/bench

kube: packages ## build the real etcd, kube-apiserver and kubectl for the kube lane into build/kube
	@tools/kube/build

generate: ## regenerate types, CRDs and the API reference from schema/
	@python3 tools/gen/generate.py
	@python3 tools/gen/chart.py
	@python3 tools/gen/policies.py

format: packages ## format the C++ sources in place
	@tools/format --write

check: packages ## what needs no build: generated files, format, tidy rules of the tree
	@tools/check

lint: packages ## run the pinned clang-tidy over src (slow; FILES=... for some of them)
	@tools/lint $(FILES)

fuzz: packages ## run every fuzz target for FUZZ_SECONDS (30) seconds
	@tools/fuzz

clean: ## remove what was built (build/kube stays: it takes long)
	@find build -mindepth 1 -maxdepth 1 ! -name kube -exec rm -rf {} + 2>/dev/null; true
