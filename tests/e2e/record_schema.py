"""Every audit record that an engine writes in a test is one of docs/audit.schema.json."""

import functools
import json

from jsonschema import Draft202012Validator

from .control_plane import REPO

SCHEMA = REPO / "docs" / "audit.schema.json"


@functools.cache
def validator() -> Draft202012Validator:
    schema = json.loads(SCHEMA.read_text())
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


def faults_of(record: dict) -> list:
    return [f"{fault.json_path}: {fault.message}" for fault in validator().iter_errors(record)]


def check_records(engines):
    for engine in engines:
        for record in engine.records():
            assert not faults_of(record), f"{faults_of(record)} in {json.dumps(record)}"
