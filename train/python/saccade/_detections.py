"""The results of a model for an image."""

from typing import Any, List, Optional, Tuple

import numpy as np

from ._errors import Error


class Detections:
    """What a model finds in one image: N objects of a detector, or N classes of a classifier or segmentation
    model.

    They are sorted by descending score.

    Attributes:
        xyxy: float64 [N, 4], boxes as x1, y1, x2, y2 in pixels of the image as it was given, from its upper
            left corner; they may lie a little outside. A classifier's boxes are the whole image; a label
            map's enclose the pixels of a class.
        scores: float64 [N], 0 to 1.
        labels: int64 [N], positions in Model.names.
        names: N strings, the classes.
        image_size: (height, width) in pixels, of the input image; files and bytes are rotated as EXIF says.
        class_scores: for a classifier, float64 [K], 0 to 1, the scores of all classes of Model.names, whatever
            the threshold.
        label_map: for a segmentation model, int32 [height, width], the class of each pixel, whatever the
            threshold.
    """

    def __init__(
        self,
        xyxy: np.ndarray,
        scores: np.ndarray,
        labels: np.ndarray,
        names: List[str],
        image_size: Tuple[int, int],
        masks: Optional[np.ndarray] = None,
        class_scores: Optional[np.ndarray] = None,
        label_map: Optional[np.ndarray] = None,
    ) -> None:
        self.xyxy = xyxy
        self.scores = scores
        self.labels = labels
        self.names = names
        self.image_size = image_size
        self.class_scores = class_scores
        self.label_map = label_map
        self._masks = masks

    @property
    def masks(self) -> Optional[np.ndarray]:
        """bool [N, height, width], the pixels of each object or class. None if the model has no masks."""
        if self._masks is None and self.label_map is not None:
            masks: np.ndarray = self.label_map[None] == self.labels[:, None, None]
            return masks
        return self._masks

    def __len__(self) -> int:
        return len(self.scores)

    def __getitem__(self, chosen: Any) -> "Detections":
        """A selection: a slice, indices, or N bools, as in detections[detections.scores > 0.8]."""
        places = np.atleast_1d(np.arange(len(self))[chosen])
        return Detections(
            self.xyxy[places],
            self.scores[places],
            self.labels[places],
            [self.names[i] for i in places],
            self.image_size,
            None if self._masks is None else self._masks[places],
            self.class_scores,
            self.label_map,
        )

    def __repr__(self) -> str:
        found = ", ".join(f"{name} {score:.3f}" for name, score in list(zip(self.names, self.scores))[:5])
        more = ", ..." if len(self) > 5 else ""
        return f"Detections({len(self)}: {found}{more})"

    def to_supervision(self) -> Any:
        """Returns supervision.Detections, with the names as data["class_name"]; for a classifier,
        supervision.Classifications."""
        try:
            import supervision
        except ImportError:
            raise Error("to_supervision needs the package supervision: pip install supervision") from None
        if self.class_scores is not None:
            return supervision.Classifications(class_id=self.labels, confidence=self.scores)
        return supervision.Detections(
            xyxy=self.xyxy.astype(np.float32),
            mask=self.masks,
            confidence=self.scores,
            class_id=self.labels,
            data={"class_name": np.array(self.names, dtype=str)},
        )
