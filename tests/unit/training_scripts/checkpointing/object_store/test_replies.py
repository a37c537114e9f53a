"""What S3 answers."""

import pytest

from drivetrain.training_scripts.checkpointing.object_store.replies import (
    Refusal,
    Upload,
    parse,
    read_listing,
    read_refusal,
    read_uploads,
)

XMLNS = 'xmlns="http://s3.amazonaws.com/doc/2006-03-01/"'
REFUSAL = b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"


def test_a_refusal_is_told_from_an_answer() -> None:
    assert read_refusal(200, b"") is None
    assert read_refusal(204, b"") is None
    assert read_refusal(206, b"content") is None
    assert read_refusal(503, REFUSAL) == Refusal("SlowDown", "Please reduce your request rate.")
    assert str(read_refusal(503, REFUSAL)) == "SlowDown (Please reduce your request rate.)"
    assert read_refusal(404, b"") == Refusal("", "")
    assert read_refusal(502, b"<html>Bad gateway") == Refusal("", "")


def test_a_copy_or_a_completion_may_fail_after_its_status() -> None:
    """It is answered with 200, then with blanks, to keep the connection alive, then with what came of it."""
    late = b'<?xml version="1.0" encoding="UTF-8"?>\n   \n' + REFUSAL
    assert read_refusal(200, late) == Refusal("SlowDown", "Please reduce your request rate.")


def test_an_object_that_looks_like_a_refusal_is_none() -> None:
    assert read_refusal(200, b"x" * 600 + REFUSAL) is None


def test_a_listing_names_sizes_and_times_and_the_next_page() -> None:
    body = f"""<?xml version="1.0" encoding="UTF-8"?>
        <ListBucketResult {XMLNS}><IsTruncated>true</IsTruncated><NextContinuationToken>1/x==</NextContinuationToken>
        <Contents><Key>a%20b/%C3%A9%2B</Key><LastModified>2026-11-21T04:00:01.000Z</LastModified><Size>7</Size></Contents>
        </ListBucketResult>""".encode()
    (entry,), token = read_listing(body)
    assert (entry.key, entry.size, entry.modified.isoformat()) == ("a b/é+", 7, "2026-11-21T04:00:01+00:00")
    assert token == "1/x=="


def test_uploads_and_their_next_page() -> None:
    upload = "<Upload><Key>a%2Bb</Key><UploadId>id/1</UploadId></Upload>"
    markers = "<NextKeyMarker>a%2Bb</NextKeyMarker><NextUploadIdMarker>id/1</NextUploadIdMarker>"

    def page(truncated: str) -> bytes:
        text = f"{markers}<IsTruncated>{truncated}</IsTruncated>{upload}"
        return f"<ListMultipartUploadsResult {XMLNS}>{text}</ListMultipartUploadsResult>".encode()

    assert read_uploads(page("false")) == ([Upload("a+b", "id/1")], {})
    assert read_uploads(page("true"))[1] == {"key-marker": "a+b", "upload-id-marker": "id/1"}


def test_no_declaration_is_read() -> None:
    bomb = b'<!DOCTYPE a [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;">]><Error><Code>&b;</Code></Error>'
    with pytest.raises(ValueError, match="declarations"):
        parse(bomb)
    with pytest.raises(ValueError, match="no XML"):
        parse(b"<a>")
