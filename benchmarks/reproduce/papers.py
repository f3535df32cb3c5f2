"""Numbers of the papers, as printed: (value, standard error) or (error, overlap), in percent.

Song et al. (2012), JMLR 13, 1393-1434: Tables 1, 3 and 4. Chen et al. (2017) has its numbers in
figures alone. None is what the paper left out or did not finish.
"""

#: Methods by their names here, in the order of the columns of Table 1.
COLUMNS_1 = ("BAHSIC", "FOHSIC", "Pearson", "mutual information", "RFE", "ReliefF", "L0", "R2W2")
_TABLE_1 = """
covertype|26.3±1.5 37.9±1.7 40.3±1.3 26.7±1.1 33.0±1.9 42.7±0.7 43.4±0.7 44.2±1.7
ionosphere|12.3±1.7 12.8±1.6 12.3±1.5 13.1±1.7 20.2±2.2 11.7±2.0 35.9±0.4 13.7±2.7
sonar|27.9±3.1 25.0±2.3 25.5±2.4 26.9±1.9 21.6±3.4 24.0±2.4 36.5±3.3 32.3±1.8
heart|14.8±2.4 14.4±2.4 16.7±2.4 15.2±2.5 21.9±3.0 21.9±3.4 30.7±2.8 19.3±2.6
breastcancer|3.8±0.4 3.8±0.4 4.0±0.4 3.5±0.5 3.4±0.6 3.1±0.3 32.7±2.3 3.4±0.4
australian|14.3±1.3 14.3±1.3 14.5±1.3 14.5±1.3 14.8±1.2 14.5±1.3 35.9±1.0 14.5±1.3
splice|22.6±1.1 22.6±1.1 22.8±0.9 21.9±1.0 20.7±1.0 22.3±1.0 45.2±1.2 24.0±1.0
svmguide3|20.8±0.6 20.9±0.6 21.2±0.6 20.4±0.7 21.0±0.7 21.6±0.4 23.3±0.3 23.9±0.2
adult|24.8±0.2 24.4±0.6 18.3±1.1 21.6±1.1 21.3±0.9 24.4±0.2 24.7±0.1 -
cleveland|19.0±2.1 20.5±1.9 21.9±1.7 19.5±2.2 20.9±2.1 22.4±2.5 25.2±0.6 21.5±1.3
dermatology|0.3±0.3 0.3±0.3 0.3±0.3 0.3±0.3 0.3±0.3 0.3±0.3 24.3±2.6 0.3±0.3
hepatitis|13.8±3.5 15.0±2.5 15.0±4.1 15.0±4.1 15.0±2.5 17.5±2.0 16.3±1.9 17.5±2.0
musk|29.9±2.5 29.6±1.8 26.9±2.0 31.9±2.0 34.7±2.5 27.7±1.6 42.6±2.2 36.4±2.4
optdigits|0.5±0.2 0.5±0.2 0.5±0.2 3.4±0.6 3.0±1.6 0.9±0.3 12.5±1.7 0.8±0.3
spectf|20.0±2.8 20.0±2.8 18.8±3.4 18.8±3.4 37.5±6.7 26.3±3.5 36.3±4.4 31.3±3.4
wdbc|5.3±0.6 5.3±0.6 5.3±0.7 6.7±0.5 7.7±1.8 7.2±1.0 16.7±2.7 6.8±1.2
wine|1.7±1.1 1.7±1.1 1.7±1.1 1.7±1.1 3.4±1.4 4.2±1.9 25.1±7.2 1.7±1.1
german|29.2±1.9 29.2±1.8 26.2±1.5 26.2±1.7 27.2±2.4 33.2±1.1 32.0±0.0 24.8±1.4
gissette|12.4±1.0 13.0±0.9 16.0±0.7 50.0±0.0 42.8±1.3 16.7±0.6 42.7±0.7 -
arcene|22.0±5.1 19.0±3.1 31.0±3.5 45.0±2.7 34.0±4.5 30.0±3.9 46.0±6.2 32.0±5.5
madelon|37.9±0.8 38.0±0.7 38.4±0.6 51.6±1.0 41.5±0.8 38.6±0.7 51.3±1.1 -
satimage|15.8±1.0 17.9±0.8 52.6±1.7 22.7±0.9 18.7±1.3 - 22.1±1.8 -
segment|28.6±1.3 33.9±0.9 22.9±0.5 27.1±1.3 24.5±0.8 - 68.7±7.1 -
vehicle|36.4±1.5 48.7±2.2 42.8±1.4 45.8±2.5 35.7±1.3 - 40.7±1.4 -
svmguide2|22.8±2.7 22.2±2.8 26.4±2.5 27.4±1.6 35.6±1.3 - 34.5±1.7 -
vowel|44.7±2.0 44.7±2.0 48.1±2.0 45.4±2.2 51.9±2.0 - 85.6±1.0 -
usps|43.4±1.3 43.4±1.3 73.7±2.2 67.8±1.8 55.8±2.6 - 67.0±2.2 -
housing|18.5±2.6 18.9±3.6 25.3±2.5 18.9±2.7 - - - -
bodyfat|3.5±2.5 3.5±2.5 3.4±2.5 3.4±2.5 - - - -
abalone|55.1±2.7 55.9±2.9 54.2±3.3 56.5±2.6 - - - -
"""
#: The same sets in another form, or with more or less in them than the paper tells of.
ALSO = {
    "adult_a1a": "adult",
    "dermatology, two classes": "dermatology",
    "optdigits, two classes": "optdigits",
}
#: Table 3, two classes: its rows 10, 11 and 13; Table 4: columns 16, 18 and 19.
COLUMNS_3 = (
    *("Pearson", "signal to noise", "shrunken centroid", "t", "moderated t", "B", "linear HSIC"),
    *("BAHSIC", "BAHSIC, inverse distance", "SVM-RFE (dhsic)"),
)
_TABLE_3 = """
breast|16.0±2 18.0±2 14.0±2 14.0±8 22.0±9 22.0±9 16.0±2 16.0±0 18.0±0 32.5±0
colon|12.9±5 12.9±5 12.9±5 19.5±0 22.1±0 33.6±0 11.2±4 9.5±6 16.0±4 19.0±0
leukaemia|8.4±5 11.1±0 7.0±5 22.1±3 27.9±6 15.4±1 7.0±2 9.6±0 11.1±0 4.3±1
"""
COLUMNS_4 = ("linear HSIC", "BAHSIC", "BAHSIC, inverse distance")
_TABLE_4 = """
aml|36.7±1 33.3±3 29.7±2
lymphoma|5.0±3 1.7±3 6.7±0
yeast|10.5±6 7.2±9 8.2±9
"""


def _read(text, columns):
    """{(set, method): (value, what stands beside it)}."""
    found = {}
    for line in text.split("\n"):
        name, _, entries = line.partition("|")
        for method, entry in zip(columns, entries.split(), strict=False):
            if entry != "-":
                value, beside = map(float, entry.split("±"))
                found[name, method] = (value, beside)
    return found


TABLE_1 = _read(_TABLE_1, COLUMNS_1)
TABLE_1 |= {(a, m): v for a, b in ALSO.items() for (s, m), v in TABLE_1.items() if s == b}
TABLES_3_AND_4 = _read(_TABLE_3, COLUMNS_3) | _read(_TABLE_4, COLUMNS_4)
