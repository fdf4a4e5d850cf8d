"""The bucket: closed, encrypted, and nothing goes that a delta may need."""

from __future__ import annotations

from collections.abc import Iterator

from tests.cloudformation.stack import Stack, is_everyone, listed, rule

ROLE = "${Role.Arn}"


@rule
def public_access_is_blocked(stack: Stack) -> Iterator[str]:
    for name, bucket in stack.of("S3::Bucket").items():
        blocks = bucket.get("PublicAccessBlockConfiguration", {})
        for one in ("BlockPublicAcls", "BlockPublicPolicy", "IgnorePublicAcls", "RestrictPublicBuckets"):
            if blocks.get(one) is not True:
                yield f"{name}: {one} is not true"


@rule
def bucket_is_encrypted(stack: Stack) -> Iterator[str]:
    for name, bucket in stack.of("S3::Bucket").items():
        sides = bucket.get("BucketEncryption", {}).get("ServerSideEncryptionConfiguration", [])
        kinds = {one.get("ServerSideEncryptionByDefault", {}).get("SSEAlgorithm") for one in sides}
        expected = "aws:kms" if stack.parameters.get("KmsKeyArn") else "AES256"
        if kinds != {expected}:
            yield f"{name}: encrypted with {kinds}"


@rule
def bucket_owner_owns(stack: Stack) -> Iterator[str]:
    for name, bucket in stack.of("S3::Bucket").items():
        rules = bucket.get("OwnershipControls", {}).get("Rules", [])
        if [one.get("ObjectOwnership") for one in rules] != ["BucketOwnerEnforced"]:
            yield f"{name}: {rules}"


@rule
def versions_are_kept(stack: Stack) -> Iterator[str]:
    for name, bucket in stack.of("S3::Bucket").items():
        if bucket.get("VersioningConfiguration", {}).get("Status") != "Enabled":
            yield f"{name}: not versioned"


@rule
def nothing_expires_or_moves(stack: Stack) -> Iterator[str]:
    for name, bucket in stack.of("S3::Bucket").items():
        for one in bucket.get("LifecycleConfiguration", {}).get("Rules", []):
            for key in one:
                if key.startswith(("Expiration", "Noncurrent", "Transition")):
                    yield f"{name}: {one.get('Id')}: {key}"


@rule
def incomplete_uploads_end(stack: Stack) -> Iterator[str]:
    for name, bucket in stack.of("S3::Bucket").items():
        rules = bucket.get("LifecycleConfiguration", {}).get("Rules", [])
        if not any("AbortIncompleteMultipartUpload" in one and one["Status"] == "Enabled" for one in rules):
            yield f"{name}: no rule aborts them"


@rule
def data_stays_when_the_stack_goes(stack: Stack) -> Iterator[str]:
    for name, one in stack.resources.items():
        if one["Type"] in ("AWS::S3::Bucket", "AWS::S3::BucketPolicy"):
            for policy in ("DeletionPolicy", "UpdateReplacePolicy"):
                if one.get(policy) != "Retain":
                    yield f"{name}: {policy} is {one.get(policy)}"


@rule
def nobody_is_let_in_by_the_bucket_policy(stack: Stack) -> Iterator[str]:
    for one in stack.bucket_policy():
        if one["Effect"] == "Allow" and is_everyone(one.get("Principal")):
            yield f"{one.get('Sid')}: allows everyone"


@rule
def tls_only(stack: Stack) -> Iterator[str]:
    for name in stack.of("S3::Bucket"):
        arn = f"${{{name}.Arn}}"
        for one in stack.bucket_policy():
            refuses = one["Effect"] == "Deny" and is_everyone(one["Principal"]) and listed(one["Action"]) == ["s3:*"]
            if (
                refuses
                and set(listed(one["Resource"])) == {arn, f"{arn}/*"}
                and one.get("Condition") == {"Bool": {"aws:SecureTransport": "false"}}
            ):
                break
        else:
            yield f"{name}: plain HTTP is not refused"


def _refused_to_others(stack: Stack, actions: set[str], resource: str) -> bool:
    trusted = {ROLE} | ({stack.parameters["AdministratorArn"]} if "AdministratorArn" in stack.parameters else set())
    for one in stack.bucket_policy():
        condition = one.get("Condition", {})
        if (
            one["Effect"] == "Deny"
            and is_everyone(one["Principal"])
            and actions <= set(listed(one["Action"]))
            and listed(one["Resource"]) == [resource]
            and condition.keys() == {"ArnNotEquals"}
            and set(listed(condition["ArnNotEquals"].get("aws:PrincipalArn"))) == trusted
        ):
            return True
    return False


@rule
def only_the_endpoint_deletes(stack: Stack) -> Iterator[str]:
    if not _refused_to_others(stack, {"s3:DeleteObject", "s3:DeleteObjectVersion"}, "${Bucket.Arn}/*"):
        yield "others may delete"


@rule
def only_the_endpoint_writes_its_folder(stack: Stack) -> Iterator[str]:
    if not _refused_to_others(stack, {"s3:PutObject"}, "${Bucket.Arn}/.s4weights/*"):
        yield "others may write below .s4weights/"
