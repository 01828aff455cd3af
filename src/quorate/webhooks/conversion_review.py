"""ConversionReview (``apiextensions.k8s.io/v1``) between v1beta1 and v1beta2.

The objects are decoded and encoded together with the body that contains them, and changed in place.
"""

from typing import Any, Final

import msgspec

from quorate.api import codec
from quorate.api.kueue.conversion import TooLarge, UnknownVersion, convert_in_place
from quorate.api.meta import Struct
from quorate.webhooks.admission_review import InvalidReview

API_VERSION: Final = "apiextensions.k8s.io/v1"


class ConversionRequest(Struct):
    uid: str
    desired_api_version: str = msgspec.field(name="desiredAPIVersion")
    objects: list[dict[str, Any]] = msgspec.field(default_factory=list)


class ConversionReview(Struct):
    api_version: str
    kind: str
    request: ConversionRequest


# Numbers with a fraction keep their text, at a tenth of the cost of the codec's numbers.
_REVIEWS: Final = msgspec.json.Decoder(ConversionReview, float_hook=msgspec.Raw)


def read_conversion(body: bytes) -> ConversionRequest:
    """Decode a ConversionReview.  Raises ``InvalidReview``."""
    try:
        review = _REVIEWS.decode(body)
    except (msgspec.DecodeError, RecursionError) as error:
        raise InvalidReview(f"the body is not a ConversionReview: {error}") from error
    if (review.api_version, review.kind) != (API_VERSION, "ConversionReview"):
        kind = f"{review.kind} of {review.api_version}"
        raise InvalidReview(f"the body is {kind}, must be ConversionReview of {API_VERSION}")
    return review.request


def convert_objects(request: ConversionRequest) -> bytes:
    """Return the ConversionReview with the response: all objects are converted, or none.

    Changes the objects of the request.
    """
    response: dict[str, Any] = {"uid": request.uid, "result": {"status": "Success"}}
    try:
        for document in request.objects:
            convert_in_place(document, request.desired_api_version)
        response["convertedObjects"] = request.objects
    except (TooLarge, UnknownVersion) as error:
        response["result"] = {"status": "Failure", "message": str(error)}
    except (
        AttributeError,
        LookupError,
        OverflowError,
        TypeError,
        ValueError,
    ) as error:  # conversion does not validate
        problem = f"an object does not have the structure of its kind: {error!r}"
        response["result"] = {"status": "Failure", "message": problem}
    return codec.encode({"apiVersion": API_VERSION, "kind": "ConversionReview", "response": response})
