"""What a column's name reveals, in the languages of many registers.

Names are split into words, at whatever is not a letter and at CamelCase; accents go.
"""

import re
import unicodedata
from functools import cache
from itertools import pairwise


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


PEOPLE = _words("""
    firstname lastname fullname surname forename maidenname middlename givenname familyname
    nickname username initials vorname nachname familienname rufname zuname geburtsname prenom
    patronyme nombres apellido apellidos cognome sobrenome apelido voornaam achternaam fornavn
    etternavn efternavn fornamn efternamn etunimi sukunimi imie nazwisko jmeno prijmeni
    keresztnev vezeteknev prenume soyadi имя фамилия отчество фио 姓名 氏名 名前 이름 성명
""")
"""Words for the name of a person."""

CALLED = _words("""
    name names nom nome nombre naam navn namn nazwa nev nimi
""")
"""Words for the name of anything."""

FIRST_OR_LAST = _words("""
    first last middle given family maiden full father mother
""")
"""Words that make a name a person's; by themselves too, over text."""

ROLES = _words("""
    patient physician doctor surgeon nurse client customer employee staff teacher student
    pupil author director actor driver owner contact person defendant plaintiff judge lawyer
    witness guardian parent child spouse tenant landlord applicant beneficiary arzt aerztin
    kunde mitarbeiter lehrer schueler fahrer inhaber patientin medecin cliente paciente
    empleado
""")
"""Words for people in a role: what stands there is often a name."""

IDS = _words("""
    id ids uid uuid guid pid oid rownum rowid kennung ident identifier mrn matricule aktenzeichen
    idno idnr idnum pidnum patid patno ptid subjid subjno caseid respid respno personid rownames
""")
NUMBERS = IDS | _words("""
    key nr no num number numero nummer index idx record rec serial ref reference case ticket
    order invoice folio akte kennzeichen dossier expediente
""")
"""Words for a number that stands for a record: surely, and if nearly all differ."""

OFFICIAL = _words("""
    ssn sin nin nhs passport ausweis steuernummer steuerid taxid tin cpf cnpj curp rfc dni nif
    nie codicefiscale bsn pesel personnummer insee aadhaar licence license plate kennzeichen
    vin iban bic konto kontonummer account kreditkarte creditcard card ccnum imei mac isbn orcid
""")
"""Words for numbers that an office, a bank or a maker gave to one person or thing."""

REACHED = _words("""
    email mail phone tel telephone mobile cellphone fax telefon telefonnummer handy mobil
    rufnummer telefono telefone celular courriel correo address addr adresse anschrift street
    strasse direccion indirizzo endereco rue calle
""")
"""Words for what reaches one person: mail, telephone, street."""

BIRTH = _words("""
    birth birthday birthdate birthyear dob yob bday born geburt geburtstag geburtsdatum
    geburtsjahr geboren geb naissance nacimiento nascita nascimento geboorte fodsel fodelse
    urodzenia narozeni syntyma рождения
""")
OF_BIRTHS = _words("""
    weight length height order rate rates place defect interval control gewicht poids peso
""")
"""Words that make a birth a measurement."""
PLACES = _words("""
    canton community constituency country county district municipality nation parish
    precinct province region state village ward bezirk gemeinde kreis land commune departement
    municipio pais provincia
""")
"""Words for places: a number under them is a name."""
HOLDERS = _words("""
    child clinic cluster family farm firm hospital household mother psu pupil school site station
    store student teacher tract tree woman worker schule krankenhaus ecole escuela
""")
"""Words for people and things: so is a number under these, unless it is small enough to count."""
KINDS = _words("""
    airline airport brand breed cause city color colour company country county course crop
    department diagnosis disease drug field genus hospital industry institution island item job
    maker manufacturer medium model occupation operator organisation organization party plant
    position product profession publisher race region religion school sector species sport state
    station store street subject team town trade treatment type university variety
""")
"""Words for kinds and places: capitalised words under them are not people."""
MONTHS = _words("""
    month monat mois mes mese maand
""")
CODED = _words("""
    cat category cd class code codes course grp group industry kategorie klasse occupation
""")
"""Words for a number that stands for a kind."""
LATITUDE = _words("""
    lat latitude latitud breite breitengrad latitudine
""")
LONGITUDE = _words("""
    lon lng long longitude longitud laenge lange laengengrad langengrad longitudine
""")
GEO = _words("""
    geo gps geom geometry coord coords coordinate coordinates koordinate
""")
POSTAL = _words("""
    zip zipcode zip5 plz postal postcode postleitzahl codepostal cap cep pincode fips
""")
WRITTEN = _words("""
    comment comments remark remarks note notes description descriptions memo narrative freetext
    bemerkung bemerkungen anmerkung anmerkungen kommentar kommentare notiz notizen beschreibung
    commentaire remarque comentario comentarios observacion observaciones commento opmerking
""")
"""Words for what people write in their own words."""
COUNTED = _words("""
    age alter edad count counts anzahl n number num total sum hours days months years weeks
    size children kinder visits times rank score grade amount quantity qty balance price cost
    value
""")
"""Words for what was counted or measured: few whole numbers, and yet no code."""
MEASURED = COUNTED - {"n", "number", "num"}
"""Those that never stand for a number that was given, as in 'phone number'."""


@cache
def words_of(name: str) -> frozenset[str]:
    """Return the words of a column's name, joined pairs too: 'first name' is 'firstname'.

    >>> sorted(words_of("patientFirst_name2"))
    ['first', 'firstname', 'name', 'patient', 'patientfirst']
    """
    apart = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", _plain(name))
    words = re.findall(r"[^\W\d_]+", apart.lower())
    pairs = [a + b for a, b in pairwise(words)]
    return frozenset([*words, *pairs])


def _plain(text: str) -> str:
    """Return text without accents; other scripts stay as they are."""
    apart = unicodedata.normalize("NFKD", text)
    return unicodedata.normalize("NFC", "".join(c for c in apart if not unicodedata.combining(c)))
