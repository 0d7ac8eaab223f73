"""Images to bits and back: reading images, Gabor sketches, the alphabet of 18 patterns."""

from bitmix.features.alphabet import Alphabet
from bitmix.features.gabor import GaborGeometry, GaborSketch
from bitmix.features.images import ImageFolder, load_image_folder

__all__ = ["Alphabet", "GaborGeometry", "GaborSketch", "ImageFolder", "load_image_folder"]
